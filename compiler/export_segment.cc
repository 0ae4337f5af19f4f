// weft.segment ops as messages: which value lies where, and the steps.
//
// A result that is tied to an operand lies where the operand lies; a result that is returned lies in the operand of its
// role; the rest shares the workspace, planned by the steps between definition and last use, or where a collective runs
// beside other steps until one waits for it. What detached steps touch of the rest lies in `deferred`, where bytes are
// used again by later layers (deferred_lives.h). What may go wrong with storage that is used again (a value read after
// something else took its place) is checked step by step.
#include "compiler/export_segment.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/arena.h"
#include "compiler/cost_of_ops.h"
#include "compiler/deferred_lives.h"
#include "compiler/step_order.h"
#include "compiler/tensor_room.h"
#include "compiler/training.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "proto/status.h"
#include "proto/units.h"

namespace weft {

namespace {

constexpr int64_t kValueAlignment = 64;
constexpr int64_t kLargestOperand = int64_t{1} << 60;

// One tensor's place; it may hold one value after the other.
struct Storage {
  mlir::RankedTensorType type;
  std::string name;
  // Null for a place in the workspace.
  ir::RoleAttr role;
  // What it holds before step `i` runs, while steps are walked.
  mlir::Value content;
  bool read_first = false;
  bool written = false;
  int first_step = -1;
  int last_step = -1;
  // Touched by detached steps, and by others.
  bool detached = false;
  bool attached = false;
  int operand = -1;
  int64_t offset = 0;
  int value = -1;
  // Elements, if more than the type has: what is gathered into it, or scattered from it, in parts that are rounded up.
  int64_t room = 0;
  // The same as a value of its own.
  int roomy_value = -1;
  // By a step of this segment.
  bool in_parts = false;
  // What is scattered from it must end in zeros: a step makes them before it is written first.
  bool ends_in_zeros = false;
  int zeros_value = -1;

  int64_t item() const { return ir::BytesOfTensor(type) / std::max<int64_t>(1, type.getNumElements()); }
  int64_t bytes() const { return room > 0 ? ir::SaturatingMultiply(room, item()) : ir::BytesOfTensor(type); }
  // Where the zeros begin: at or before the end of the type's elements, as values begin at multiples of 64.
  int64_t zeros_from() const {
    const int64_t unit = std::lcm(kValueAlignment, item());
    return ir::BytesOfTensor(type) / unit * unit;
  }
};

// A step of the segment: an op, or what makes the end of a place zero before the op writes there.
struct PlannedStep {
  mlir::Operation* op = nullptr;
  int zeros_of = -1;
};

// Elements of all members' parts that `op` gathers or scatters as its `index`-th; 0 if it does neither.
int64_t ElementsOfParts(mlir::Operation* op, size_t index) {
  auto elements = [](mlir::Value part) { return mlir::cast<mlir::RankedTensorType>(part.getType()).getNumElements(); };
  if (auto gather = mlir::dyn_cast<ir::GroupAllGatherOp>(op)) {
    return elements(gather.getInputs()[index]) * static_cast<int64_t>(gather.getMembers());
  }
  auto scatter = mlir::dyn_cast<ir::GroupReduceScatterOp>(op);
  return scatter ? elements(scatter.getOutputs()[index]) * static_cast<int64_t>(scatter.getMembers()) : 0;
}

// What such an op gathers into, or scatters from.
mlir::ValueRange WholesOf(mlir::Operation* op) {
  if (auto gather = mlir::dyn_cast<ir::GroupAllGatherOp>(op)) return gather.getOutputs();
  if (auto scatter = mlir::dyn_cast<ir::GroupReduceScatterOp>(op)) return scatter.getInputs();
  return {};
}

bool IsRoundedUp(mlir::Operation* op, size_t index) {
  auto whole = mlir::cast<mlir::RankedTensorType>(WholesOf(op)[index].getType());
  return ElementsOfParts(op, index) != whole.getNumElements();
}

// What an action may leave to detached steps beyond its end: it lives for the whole run.
bool OutlivesActions(ir::Role role) {
  return role == ir::Role::Deferred || role == ir::Role::Param || role == ir::Role::Master || role == ir::Role::Grad ||
         role == ir::Role::GradAccumulator;
}

bool HasLayout(ir::Role role) { return role == ir::Role::Saved || role == ir::Role::SavedGrad; }

class SegmentExporter {
 public:
  // `known`: of the stage's segments that are exported already.
  SegmentExporter(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors, const Layouts& known)
      : segment_(segment), ret_(segment.getReturn()), tensors_(tensors), known_(known) {}

  mlir::FailureOr<StageSegment> Run();
  // Of the operands that `known` did not have.
  Layouts& layouts() { return layouts_; }

 private:
  mlir::LogicalResult PlaceValues();
  mlir::LogicalResult PlaceReturned(mlir::Value value, ir::RoleAttr role);
  // The operand whose storage a collective may put result `index` into, as nothing reads it afterwards; -1 if none.
  int InPlaceOperand(mlir::Operation& op, unsigned index);
  void DeferDetached();
  mlir::LogicalResult CheckDetached();
  mlir::LogicalResult MakeRoom();
  mlir::LogicalResult WalkSteps();
  std::vector<PlannedStep> PlannedSteps();
  std::vector<OrderedStep> OrderedSteps(const std::vector<PlannedStep>& steps);
  void ExtendLives();
  absl::StatusOr<std::vector<int64_t>> PlaceDeferred(const std::vector<int>& order, int64_t* bytes);
  mlir::LogicalResult Touch(mlir::Operation* op, int step);
  mlir::LogicalResult MakeOperands();
  mlir::LogicalResult PlaceInOperand(Storage& storage, SegmentOperand& operand);
  void MakeValues(const std::vector<int>& order);
  void MakeZeros(const Storage& storage, Step* step);
  void MakeSteps();

  std::string RoleName(ir::RoleAttr role) const;
  Storage& StorageOf(mlir::Value value) { return storages_[Find(storage_of_.lookup(value))]; }
  // Places that were found to be the same.
  int Find(int storage) const {
    while (same_as_[storage] != storage) storage = same_as_[storage];
    return storage;
  }
  int AddStorage(mlir::Value value, std::string name, ir::RoleAttr role) {
    storages_.emplace_back();
    storages_.back().type = mlir::cast<mlir::RankedTensorType>(value.getType());
    storages_.back().name = std::move(name);
    storages_.back().role = role;
    same_as_.push_back(static_cast<int>(storages_.size()) - 1);
    return same_as_.back();
  }

  ir::SegmentOp segment_;
  ir::ReturnOp ret_;
  const std::vector<ir::TensorOp>& tensors_;
  const Layouts& known_;
  Layouts layouts_;
  std::vector<mlir::Operation*> steps_;
  std::vector<Storage> storages_;
  std::vector<int> same_as_;
  llvm::DenseMap<mlir::Value, int> storage_of_;
  StageSegment result_;
};

std::string SegmentExporter::RoleName(ir::RoleAttr role) const {
  std::string name = ir::stringifyRole(role.getRole()).str();
  if (role.getTensor() >= 0) {
    const size_t index = role.getTensor();
    ir::TensorOp tensor = index < tensors_.size() ? tensors_[index] : ir::TensorOp();
    absl::StrAppend(&name, " ", tensor ? tensor.getSymName().str() : absl::StrCat("tensor ", index));
  }
  if (HasLayout(role.getRole())) {
    absl::StrAppend(&name, " ", role.getUse());
  } else if (role.getUse() > 0) {
    absl::StrAppend(&name, " use ", role.getUse());
  }
  return name;
}

mlir::LogicalResult SegmentExporter::PlaceReturned(mlir::Value value, ir::RoleAttr role) {
  int storage = Find(storage_of_.lookup(value));
  if (mlir::BlockArgument argument = segment_.findArgument(role)) {
    int home = Find(storage_of_.lookup(argument));
    if (home == storage) return mlir::success();
    if (!storages_[storage].role) {
      same_as_[storage] = home;
      return mlir::success();
    }
  } else if (!storages_[storage].role) {
    storages_[storage].role = role;
    storages_[storage].name = RoleName(role);
    return mlir::success();
  }
  return ret_.emitOpError() << "[export_segments_c1] the result '" << RoleName(role) << "' lies in the storage of '"
                            << storages_[storage].name << "'; copy it with weft.cast";
}

mlir::LogicalResult SegmentExporter::PlaceValues() {
  for (auto [index, argument] : llvm::enumerate(segment_.getBody().getArguments())) {
    ir::RoleAttr role = segment_.getArgRole(index);
    storage_of_[argument] = AddStorage(argument, RoleName(role), role);
  }
  for (mlir::Operation& op : segment_.getBody().front().without_terminator()) {
    auto kernel = mlir::dyn_cast<ir::KernelInterface>(op);
    if (!kernel || KernelOf(&op) == KERNEL_UNSPECIFIED) {
      return op.emitOpError("[export_segments_c2] is not a kernel; a segment holds kernels only");
    }
    auto name = op.getAttrOfType<mlir::StringAttr>(ir::kNameAttr);
    std::string text = name ? name.str() : op.getName().stripDialect().str();
    for (mlir::OpResult result : op.getResults()) {
      unsigned number = result.getResultNumber();
      int tied = kernel.getTiedOperand(number);
      if (tied < 0) tied = InPlaceOperand(op, number);
      storage_of_[result] = tied >= 0 ? storage_of_.lookup(op.getOperand(tied))
                                      : AddStorage(result, number > 0 ? absl::StrCat(text, " #", number) : text, {});
    }
    steps_.push_back(&op);
  }
  for (auto [index, value] : llvm::enumerate(ret_.getValues())) {
    if (mlir::failed(PlaceReturned(value, segment_.getResultRole(index)))) return mlir::failure();
  }
  return mlir::success();
}

int SegmentExporter::InPlaceOperand(mlir::Operation& op, unsigned index) {
  if (!mlir::isa<ir::GroupAllReduceOp>(op)) return -1;
  mlir::Value operand = op.getOperand(index);
  mlir::Operation* maker = operand.getDefiningOp();
  if (!maker || storages_[storage_of_.lookup(operand)].role) return -1;
  if (llvm::count(op.getOperands(), operand) > 1) return -1;
  // Of storage that is updated in place this is the last value, or it would be read in vain.
  const bool last = llvm::all_of(operand.getUsers(),
                                 [&](mlir::Operation* user) { return user == &op || user->isBeforeInBlock(&op); });
  return last ? static_cast<int>(index) : -1;
}

void SegmentExporter::DeferDetached() {
  auto role = ir::RoleAttr::get(segment_.getContext(), ir::Role::Deferred);
  for (mlir::Operation* op : steps_) {
    if (!op->hasAttr("detached")) continue;
    auto defer = [&](mlir::Value value) {
      Storage& storage = StorageOf(value);
      if (!storage.role) storage.role = role;
    };
    for (mlir::Value operand : op->getOperands()) defer(operand);
    for (mlir::Value result : op->getResults()) defer(result);
  }
}

mlir::LogicalResult SegmentExporter::CheckDetached() {
  for (mlir::Operation* op : steps_) {
    const bool detached = op->hasAttr("detached");
    auto touch = [&](mlir::Value value) -> mlir::LogicalResult {
      Storage& storage = StorageOf(value);
      (detached ? storage.detached : storage.attached) = true;
      if (!detached || OutlivesActions(storage.role.getRole())) return mlir::success();
      return op->emitOpError() << "[export_segments_c14] is detached, but touches '" << storage.name
                               << "', which may end with the action; copy it with weft.cast";
    };
    for (mlir::Value operand : op->getOperands()) {
      if (mlir::failed(touch(operand))) return mlir::failure();
    }
    for (mlir::Value result : op->getResults()) {
      if (mlir::failed(touch(result))) return mlir::failure();
    }
  }
  const bool all = !steps_.empty() && llvm::all_of(steps_, [](mlir::Operation* op) { return op->hasAttr("detached"); });
  if (all) return segment_.emitOpError("[export_segments_c15] has detached steps only; its action would have no end");
  return mlir::success();
}

// Parts that are rounded up have more elements together than what they are parts of.
mlir::LogicalResult SegmentExporter::MakeRoom() {
  for (Storage& storage : storages_) {
    if (!storage.role || storage.role.getTensor() < 0) continue;
    const size_t index = storage.role.getTensor();
    if (index >= tensors_.size()) continue;
    ir::TensorOp tensor = tensors_[index];
    const ir::Role role = storage.role.getRole();
    const bool gradient = role == ir::Role::Grad || role == ir::Role::GradAccumulator;
    if (role == ir::Role::Param || (gradient && !tensor.getGradType())) storage.room = RoomOf(tensor);
  }
  for (mlir::Operation* op : steps_) {
    for (auto [index, whole] : llvm::enumerate(WholesOf(op))) {
      if (!IsRoundedUp(op, index)) continue;
      Storage& storage = StorageOf(whole);
      const int64_t elements = ElementsOfParts(op, index);
      if (storage.room > 0 && storage.room != elements) {
        return op->emitOpError() << "[export_segments_c16] needs room for " << elements << " elements in '"
                                 << storage.name << "', which has room for " << storage.room;
      }
      if (storage.read_first) {
        return op->emitOpError() << "[export_segments_c17] fills up '" << storage.name
                                 << "', which another segment makes; copy it with weft.cast";
      }
      storage.room = elements;
      storage.in_parts = true;
      storage.ends_in_zeros |= mlir::isa<ir::GroupReduceScatterOp>(op);
    }
  }
  return mlir::success();
}

mlir::LogicalResult SegmentExporter::Touch(mlir::Operation* op, int step) {
  auto kernel = mlir::cast<ir::KernelInterface>(op);
  for (mlir::Value operand : op->getOperands()) {
    Storage& storage = StorageOf(operand);
    if (storage.content != operand) {
      mlir::InFlightDiagnostic error = op->emitOpError() << "[export_segments_c3] reads '" << storage.name
                                                         << "' after its storage was given to another value";
      if (storage.content) error.attachNote(storage.content.getLoc()) << "it holds this value then";
      return error;
    }
    if (!storage.written) storage.read_first = true;
    if (storage.first_step < 0) storage.first_step = step;
    storage.last_step = step;
  }
  for (mlir::OpResult result : op->getResults()) {
    Storage& storage = StorageOf(result);
    int tied = kernel.getTiedOperand(result.getResultNumber());
    // Only an addition may write over what it reads without being made for it.
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      if (static_cast<int>(index) == tied || &StorageOf(operand) != &storage) continue;
      if (mlir::isa<ir::AddOp>(op) && index == 0) continue;
      if (mlir::isa<ir::GroupAllReduceOp>(op) && index == result.getResultNumber()) continue;
      return op->emitOpError() << "[export_segments_c4] would write over its operand " << index << ", '" << storage.name
                               << "'";
    }
    storage.written = true;
    storage.content = result;
    if (storage.first_step < 0) storage.first_step = step;
    storage.last_step = step;
  }
  return mlir::success();
}

mlir::LogicalResult SegmentExporter::WalkSteps() {
  for (mlir::BlockArgument argument : segment_.getBody().getArguments()) StorageOf(argument).content = argument;
  for (auto [index, op] : llvm::enumerate(steps_)) {
    if (mlir::failed(Touch(op, static_cast<int>(index)))) return mlir::failure();
  }
  for (auto [index, value] : llvm::enumerate(ret_.getValues())) {
    if (StorageOf(value).content == value) continue;
    return ret_.emitOpError() << "[export_segments_c5] the result '" << RoleName(segment_.getResultRole(index))
                              << "' is not the last value in its storage";
  }
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (same_as_[i] == static_cast<int>(i) && storages_[i].first_step < 0) {
      return segment_.emitOpError() << "[export_segments_c6] no step uses its argument '" << storages_[i].name << "'";
    }
  }
  return mlir::success();
}

// In order, with those that make zeros.
std::vector<PlannedStep> SegmentExporter::PlannedSteps() {
  std::vector<std::vector<int>> zeros(steps_.size());
  for (size_t i = 0; i < storages_.size(); ++i) {
    const Storage& storage = storages_[i];
    if (same_as_[i] == static_cast<int>(i) && storage.ends_in_zeros) {
      zeros[storage.first_step].push_back(static_cast<int>(i));
    }
  }
  std::vector<PlannedStep> steps;
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (int storage : zeros[i]) steps.push_back({nullptr, storage});
    steps.push_back({steps_[i], -1});
  }
  return steps;
}

// Streams by communicator. Before values have places each storage is a space of its own.
std::vector<OrderedStep> SegmentExporter::OrderedSteps(const std::vector<PlannedStep>& steps) {
  std::map<std::pair<const void*, int>, int> streams;
  std::vector<OrderedStep> ordered;
  for (const auto& [op, zeros_of] : steps) {
    OrderedStep& step = ordered.emplace_back();
    if (op == nullptr) {
      const Storage& storage = storages_[zeros_of];
      step.accesses.push_back(
          {storage.operand, storage.offset + storage.zeros_from(), storage.offset + storage.bytes(), true});
      continue;
    }
    if (auto over = op->getAttrOfType<mlir::DictionaryAttr>("over"); over && op->hasAttr("purpose")) {
      const auto purpose = op->getAttrOfType<ir::PurposeAttr>("purpose").getValue();
      const int next = static_cast<int>(streams.size()) + 1;
      step.stream = streams.try_emplace({over.getAsOpaquePointer(), static_cast<int>(purpose)}, next).first->second;
      step.blocking = op->hasAttr("blocking");
    }
    auto access = [&](mlir::Value value, bool writes) {
      const Storage& storage = StorageOf(value);
      if (storage.operand < 0) {
        step.accesses.push_back({Find(storage_of_.lookup(value)), 0, 1, writes});
      } else {
        step.accesses.push_back({storage.operand, storage.offset, storage.offset + storage.bytes(), writes});
      }
    };
    for (mlir::Value operand : op->getOperands()) access(operand, false);
    for (mlir::Value result : op->getResults()) access(result, true);
  }
  return ordered;
}

// What a collective touches stays where it is until a compute step waits for the collective. Not in `deferred`: there
// bytes are waited for (deferred_lives.h).
void SegmentExporter::ExtendLives() {
  std::vector<PlannedStep> steps;
  for (mlir::Operation* op : steps_) steps.push_back({op, -1});
  const std::vector<OrderedStep> ordered = OrderedSteps(steps);
  const StepOrder order(ordered);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (ordered[i].stream == 0) continue;
    const int last = order.WaitedForBy(static_cast<int>(i)) - 1;
    for (const StepAccess& access : ordered[i].accesses) {
      const ir::RoleAttr role = storages_[access.space].role;
      if (role && role.getRole() == ir::Role::Deferred) continue;
      storages_[access.space].last_step = std::max(storages_[access.space].last_step, last);
    }
  }
}

// Offsets in `deferred`, for the places of `order` that lie there.
absl::StatusOr<std::vector<int64_t>> SegmentExporter::PlaceDeferred(const std::vector<int>& order, int64_t* bytes) {
  std::vector<DeferredValue> values;
  for (int i : order) {
    const Storage& storage = storages_[i];
    if (!storage.role || storage.role.getRole() != ir::Role::Deferred) continue;
    auto layer = steps_[storage.first_step]->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
    values.push_back({layer ? layer.getInt() : -1, storage.first_step, storage.last_step, storage.bytes()});
  }
  WEFT_ASSIGN_OR_RETURN(Arena arena, PlanArena(LivesOfDeferred(values, static_cast<int>(steps_.size()))));
  *bytes = arena.height;
  return std::move(arena.offsets);
}

// Gives `storage` its offset in `operand`, which is not the workspace.
mlir::LogicalResult SegmentExporter::PlaceInOperand(Storage& storage, SegmentOperand& operand) {
  const int64_t bytes = storage.bytes();
  if (!HasLayout(operand.role)) {
    operand.bytes = bytes;
    return mlir::success();
  }
  const int32_t use = storage.role.getUse();
  auto known = known_.find(operand.role);
  if (known != known_.end()) {
    auto place = known->second.places.find(use);
    if (place == known->second.places.end() || place->second.type != storage.type) {
      return segment_.emitOpError() << "[export_segments_c11] reads '" << storage.name << "' of type " << storage.type
                                    << ", which its stage does not save";
    }
    storage.offset = place->second.offset;
    operand.bytes = known->second.bytes;
    return mlir::success();
  }
  Layout& layout = layouts_[operand.role];
  storage.offset = layout.bytes;
  layout.places[use] = {storage.offset, storage.type};
  // Checked by the caller, operand by operand.
  layout.bytes = bytes > kLargestOperand ? bytes : layout.bytes + RoundUp(bytes, kValueAlignment);
  operand.bytes = layout.bytes;
  return mlir::success();
}

mlir::LogicalResult SegmentExporter::MakeOperands() {
  // Places in the order of operands: by role, tensor and use; all of the workspace last.
  std::vector<int> order;
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (same_as_[i] == static_cast<int>(i)) order.push_back(static_cast<int>(i));
  }
  auto key = [&](int i) {
    ir::RoleAttr role = storages_[i].role;
    return role ? std::make_tuple(static_cast<int>(role.getRole()), role.getTensor(), role.getUse())
                : std::make_tuple(static_cast<int>(ir::Role::Workspace), -1, 0);
  };
  llvm::stable_sort(order, [&](int a, int b) { return key(a) < key(b); });

  std::vector<ArenaItem> items;
  for (int i : order) {
    if (!storages_[i].role) {
      items.push_back({storages_[i].bytes(), storages_[i].first_step, storages_[i].last_step});
    }
  }
  absl::StatusOr<Arena> arena = PlanArena(items);
  int64_t deferred_bytes = 0;
  absl::StatusOr<std::vector<int64_t>> deferred = PlaceDeferred(order, &deferred_bytes);
  for (const absl::Status& status : {arena.status(), deferred.status()}) {
    if (status.ok()) continue;
    return segment_.emitOpError() << "[export_segments_c7] workspace: "
                                  << llvm::StringRef(status.message().data(), status.message().size());
  }
  size_t next_item = 0, next_deferred = 0;
  for (int i : order) {
    Storage& storage = storages_[i];
    ir::Role role = storage.role ? storage.role.getRole() : ir::Role::Workspace;
    bool shared = HasLayout(role) || role == ir::Role::Workspace || role == ir::Role::Deferred;
    int64_t bytes = storage.bytes();
    if (!shared || result_.operands.empty() || result_.operands.back().role != role) {
      SegmentOperand& operand = result_.operands.emplace_back();
      operand.role = role;
      operand.bytes = role == ir::Role::Workspace ? arena->height : role == ir::Role::Deferred ? deferred_bytes : 0;
      if (!shared) {
        operand.tensor = storage.role.getTensor();
        operand.use = storage.role.getUse();
        operand.dtype = DTypeOfType(storage.type.getElementType());
        operand.shape.assign(storage.type.getShape().begin(), storage.type.getShape().end());
      }
      result_.segment.add_operands()->set_name(shared ? ir::stringifyRole(role).str() : storage.name);
    }
    SegmentOperand& operand = result_.operands.back();
    storage.operand = static_cast<int>(result_.operands.size()) - 1;
    if (role == ir::Role::Workspace) {
      storage.offset = arena->offsets[next_item++];
    } else if (role == ir::Role::Deferred) {
      storage.offset = (*deferred)[next_deferred++];
    } else if (mlir::failed(PlaceInOperand(storage, operand))) {
      return mlir::failure();
    }
    if (bytes > kLargestOperand || operand.bytes > kLargestOperand) {
      return segment_.emitOpError() << "[export_segments_c8] '" << storage.name << "' has more than 2^60 bytes";
    }
    bool reads = operand.access == READ || operand.access == READ_WRITE || storage.read_first;
    bool writes = operand.access == WRITE || operand.access == READ_WRITE || storage.written;
    operand.access = reads && writes ? READ_WRITE : writes ? WRITE : READ;
    const bool others = operand.detached == 2 || (storage.attached && storage.detached);
    if (storage.detached) operand.detached = others ? 2 : 1;
  }
  for (size_t i = 0; i < result_.operands.size(); ++i) {
    Operand* operand = result_.segment.mutable_operands(static_cast<int>(i));
    operand->set_bytes(result_.operands[i].bytes);
    operand->set_access(result_.operands[i].access);
  }
  MakeValues(order);
  return mlir::success();
}

void SegmentExporter::MakeValues(const std::vector<int>& order) {
  auto add = [&](const Storage& storage, std::string name, int64_t offset, llvm::ArrayRef<int64_t> shape) {
    Value* value = result_.segment.add_values();
    value->set_name(std::move(name));
    value->set_operand(storage.operand);
    value->set_offset(storage.offset + offset);
    value->set_dtype(DTypeOfType(storage.type.getElementType()));
    value->mutable_shape()->Add(shape.begin(), shape.end());
    return result_.segment.values_size() - 1;
  };
  for (int i : order) {
    Storage& storage = storages_[i];
    storage.value = add(storage, storage.name, 0, storage.type.getShape());
  }
  for (int i : order) {
    Storage& storage = storages_[i];
    if (!storage.in_parts) continue;
    storage.roomy_value = add(storage, storage.name + " with room", 0, {storage.room});
    if (!storage.ends_in_zeros) continue;
    const int64_t from = storage.zeros_from();
    storage.zeros_value = add(storage, storage.name + " end", from, {(storage.bytes() - from) / storage.item()});
  }
}

void SegmentExporter::MakeZeros(const Storage& storage, Step* step) {
  step->set_name("zero end of " + storage.name);
  step->set_kernel(FILL);
  step->add_outputs(storage.zeros_value);
  step->mutable_work()->set_bytes(storage.bytes() - storage.zeros_from());
  step->mutable_work()->set_dtype(DTypeOfType(storage.type.getElementType()));
}

void SegmentExporter::MakeSteps() {
  const std::vector<PlannedStep> planned = PlannedSteps();
  const StepOrder order(OrderedSteps(planned));
  for (size_t number = 0; number < planned.size(); ++number) {
    mlir::Operation* op = planned[number].op;
    Step* step = result_.segment.add_steps();
    if (op == nullptr) {
      MakeZeros(storages_[planned[number].zeros_of], step);
    } else {
      auto kernel = mlir::cast<ir::KernelInterface>(op);
      *step = MakeStep(op);
      for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
        if (kernel.isStepInput(index)) step->add_inputs(StorageOf(operand).value);
      }
      for (mlir::Value result : op->getResults()) step->add_outputs(StorageOf(result).value);
      const bool gathers = mlir::isa<ir::GroupAllGatherOp>(op);
      for (auto [index, whole] : llvm::enumerate(WholesOf(op))) {
        if (!IsRoundedUp(op, index)) continue;
        (gathers ? step->mutable_outputs() : step->mutable_inputs())
            ->Set(static_cast<int>(index), StorageOf(whole).roomy_value);
      }
    }
    for (int on : order.deps(static_cast<int>(number))) step->add_deps(on);
  }
}

mlir::FailureOr<StageSegment> SegmentExporter::Run() {
  result_.kind = segment_.getKind();
  result_.stage = static_cast<int32_t>(segment_.getStage());
  if (ir::IsOfRank(result_.kind)) result_.rank = static_cast<int32_t>(RankOf(segment_));
  result_.segment.set_name(segment_.getSymName().str());
  if (mlir::failed(PlaceValues())) return mlir::failure();
  DeferDetached();
  if (mlir::failed(CheckDetached()) || mlir::failed(WalkSteps()) || mlir::failed(MakeRoom())) return mlir::failure();
  ExtendLives();
  if (mlir::failed(MakeOperands())) return mlir::failure();
  MakeSteps();
  return std::move(result_);
}

}  // namespace

mlir::FailureOr<StageSegment> ExportSegment(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors,
                                            const Layouts& known, Layouts* made) {
  SegmentExporter exporter(segment, tensors, known);
  mlir::FailureOr<StageSegment> exported = exporter.Run();
  if (made) *made = std::move(exporter.layouts());
  return exported;
}

int64_t RankOf(ir::SegmentOp segment) {
  return segment.getRankAttr() ? segment.getRankAttr().getInt() : static_cast<int64_t>(segment.getStage());
}

}  // namespace weft
