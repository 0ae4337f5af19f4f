// Exports weft.segment ops as messages: the place of each value, and the steps.
//
// Values without an operand of their own (segment_storage.h) share the workspace. There a value keeps its bytes from
// the step that makes it to its last use. If a collective that uses the value runs beside other steps, the value keeps
// them until a step waits for the collective. Values that detached steps touch lie in the operand `deferred` instead,
// where later layers reuse bytes (deferred_lives.h).
#include "compiler/export/export_segment.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/export/segment_storage.h"
#include "compiler/memory/arena.h"
#include "compiler/memory/deferred_lives.h"
#include "compiler/segments/cost_of_ops.h"
#include "compiler/segments/saved_for_input.h"
#include "compiler/segments/step_order.h"
#include "compiler/segments/training.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft {

namespace {

constexpr int64_t kLargestOperand = int64_t{1} << 60;

// A step of the segment: an op (`op`), or, if `op` is null, the step that zeroes the end of place `zeros_of` before an
// op writes there.
struct PlannedStep {
  mlir::Operation* op = nullptr;
  int zeros_of = -1;
};

bool HasLayout(ir::Role role) { return role == ir::Role::Saved || role == ir::Role::SavedGrad; }

class SegmentExporter {
 public:
  // `known`: layouts that already exported segments of the same stage have defined.
  SegmentExporter(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors, const Layouts& known)
      : segment_(segment), known_(known), values_(segment, tensors) {}

  mlir::FailureOr<StageSegment> Run();
  // Layouts of the operands that `known` did not have.
  Layouts& layouts() { return layouts_; }

 private:
  std::vector<PlannedStep> PlannedSteps();
  std::vector<OrderedStep> OrderedSteps(const std::vector<PlannedStep>& steps);
  void ExtendLives();
  absl::StatusOr<std::vector<int64_t>> PlaceDeferred(const std::vector<int>& order, int64_t* bytes);
  bool IsForInput(const Storage& storage) const;
  mlir::LogicalResult MakeOperands();
  mlir::LogicalResult PlaceInOperand(Storage& storage, SegmentOperand& operand);
  void MakeValues(const std::vector<int>& order);
  void MakeZeros(const Storage& storage, Step* step);
  void MakeSteps();

  ir::SegmentOp segment_;
  const Layouts& known_;
  Layouts layouts_;
  SegmentStorage values_;
  StageSegment result_;
};

// All steps in order, including those that make zeros.
std::vector<PlannedStep> SegmentExporter::PlannedSteps() {
  std::vector<std::vector<int>> zeros(values_.steps().size());
  for (const int i : values_.places()) {
    const Storage& storage = values_.at(i);
    if (storage.ends_in_zeros) zeros[storage.first_step].push_back(i);
  }
  std::vector<PlannedStep> steps;
  for (size_t i = 0; i < values_.steps().size(); ++i) {
    for (int storage : zeros[i]) steps.push_back({nullptr, storage});
    steps.push_back({values_.steps()[i], -1});
  }
  return steps;
}

// Returns the steps with their streams: 0 for compute, and one stream for each group and purpose of collectives. A
// storage that has no operand yet counts as a separate space.
std::vector<OrderedStep> SegmentExporter::OrderedSteps(const std::vector<PlannedStep>& steps) {
  std::map<std::pair<const void*, int>, int> streams;
  std::vector<OrderedStep> ordered;
  for (const auto& [op, zeros_of] : steps) {
    OrderedStep& step = ordered.emplace_back();
    if (op == nullptr) {
      const Storage& storage = values_.at(zeros_of);
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
      const Storage& storage = values_.StorageOf(value);
      if (storage.operand < 0) {
        step.accesses.push_back({values_.IndexOf(value), 0, 1, writes});
      } else {
        step.accesses.push_back({storage.operand, storage.offset, storage.offset + storage.bytes(), writes});
      }
    };
    for (mlir::Value operand : op->getOperands()) access(operand, false);
    for (mlir::Value result : op->getResults()) access(result, true);
  }
  return ordered;
}

// Extends the life of storages that a collective touches until a compute step waits for the collective. Storages in
// `deferred` are left out: whatever reuses their bytes waits for the collective (deferred_lives.h).
void SegmentExporter::ExtendLives() {
  std::vector<PlannedStep> steps;
  for (mlir::Operation* op : values_.steps()) steps.push_back({op, -1});
  const std::vector<OrderedStep> ordered = OrderedSteps(steps);
  const StepOrder order(ordered);
  for (size_t i = 0; i < values_.steps().size(); ++i) {
    if (ordered[i].stream == 0) continue;
    const int last = order.WaitedForBy(static_cast<int>(i)) - 1;
    for (const StepAccess& access : ordered[i].accesses) {
      const ir::RoleAttr role = values_.at(access.space).role;
      if (role && role.getRole() == ir::Role::Deferred) continue;
      values_.at(access.space).last_step = std::max(values_.at(access.space).last_step, last);
    }
  }
}

// Returns the offsets in `deferred` of those places of `order` that lie there.
absl::StatusOr<std::vector<int64_t>> SegmentExporter::PlaceDeferred(const std::vector<int>& order, int64_t* bytes) {
  std::vector<DeferredValue> values;
  for (int i : order) {
    const Storage& storage = values_.at(i);
    if (!storage.role || storage.role.getRole() != ir::Role::Deferred) continue;
    auto layer = values_.steps()[storage.first_step]->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
    values.push_back({layer ? layer.getInt() : -1, storage.first_step, storage.last_step, storage.bytes()});
  }
  WEFT_ASSIGN_OR_RETURN(Arena arena, PlanArena(LivesOfDeferred(values, static_cast<int>(values_.steps().size()))));
  *bytes = arena.height;
  return std::move(arena.offsets);
}

// True if the storage holds a saved value that ends with the input half of the backward.
bool SegmentExporter::IsForInput(const Storage& storage) const {
  if (!storage.role || storage.role.getRole() != ir::Role::Saved) return false;
  const int32_t use = storage.role.getUse();
  if (auto known = known_.find(ir::Role::Saved); known != known_.end()) {
    auto place = known->second.places.find(use);
    return place != known->second.places.end() && place->second.for_input;
  }
  auto uses = segment_->getAttrOfType<mlir::DenseI32ArrayAttr>(kSavedForInputAttr);
  return uses && llvm::is_contained(uses.asArrayRef(), use);
}

// Gives `storage` its offset in `operand`, which is not the workspace.
mlir::LogicalResult SegmentExporter::PlaceInOperand(Storage& storage, SegmentOperand& operand) {
  const int64_t bytes = storage.bytes();
  if (!HasLayout(operand.role)) {
    operand.bytes = bytes;
    return mlir::success();
  }
  const int32_t use = storage.role.getUse();
  const bool for_input = operand.role == ir::Role::Saved && operand.use == kSavedForInput;
  auto known = known_.find(operand.role);
  if (known != known_.end()) {
    auto place = known->second.places.find(use);
    if (place == known->second.places.end() || place->second.type != storage.type) {
      return segment_.emitOpError() << "[export_segments_c11] reads '" << storage.name << "' of type " << storage.type
                                    << ", which its stage does not save";
    }
    storage.offset = place->second.offset;
    operand.bytes = for_input ? known->second.for_input_bytes : known->second.bytes;
    return mlir::success();
  }
  Layout& layout = layouts_[operand.role];
  int64_t& end = for_input ? layout.for_input_bytes : layout.bytes;
  storage.offset = end;
  layout.places[use] = {storage.offset, storage.type, for_input};
  // If the operand becomes too large, the caller reports the error.
  end = bytes > kLargestOperand ? bytes : end + RoundUp(bytes, kValueAlignment);
  operand.bytes = end;
  return mlir::success();
}

mlir::LogicalResult SegmentExporter::MakeOperands() {
  // Places in the order of operands: by role, tensor and use. The places in the workspace come last.
  std::vector<int> order = values_.places();
  auto key = [&](int i) {
    ir::RoleAttr role = values_.at(i).role;
    return role ? std::make_tuple(static_cast<int>(role.getRole()), role.getTensor(), IsForInput(values_.at(i)),
                                  role.getUse())
                : std::make_tuple(static_cast<int>(ir::Role::Workspace), -1, false, 0);
  };
  llvm::stable_sort(order, [&](int a, int b) { return key(a) < key(b); });

  std::vector<ArenaItem> items;
  for (int i : order) {
    if (!values_.at(i).role) {
      items.push_back({values_.at(i).bytes(), values_.at(i).first_step, values_.at(i).last_step});
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
    Storage& storage = values_.at(i);
    ir::Role role = storage.role ? storage.role.getRole() : ir::Role::Workspace;
    bool shared = HasLayout(role) || role == ir::Role::Workspace || role == ir::Role::Deferred;
    int64_t bytes = storage.bytes();
    const int32_t part = IsForInput(storage) ? kSavedForInput : 0;
    if (!shared || result_.operands.empty() || result_.operands.back().role != role ||
        result_.operands.back().use != part) {
      SegmentOperand& operand = result_.operands.emplace_back();
      operand.role = role;
      operand.use = part;
      operand.bytes = role == ir::Role::Workspace ? arena->height : role == ir::Role::Deferred ? deferred_bytes : 0;
      if (!shared) {
        operand.tensor = storage.role.getTensor();
        operand.use = storage.role.getUse();
        operand.dtype = DTypeOfType(storage.type.getElementType());
        operand.shape.assign(storage.type.getShape().begin(), storage.type.getShape().end());
      }
      result_.segment.add_operands()->set_name(part == kSavedForInput ? std::string(kSavedForInputName)
                                               : shared               ? ir::stringifyRole(role).str()
                                                                      : storage.name);
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
    Storage& storage = values_.at(i);
    storage.value = add(storage, storage.name, 0, storage.type.getShape());
  }
  for (int i : order) {
    Storage& storage = values_.at(i);
    if (!storage.in_parts) continue;
    storage.padded_value = add(storage, storage.name + " with room", 0, {storage.room});
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
      MakeZeros(values_.at(planned[number].zeros_of), step);
    } else {
      auto kernel = mlir::cast<ir::KernelInterface>(op);
      *step = MakeStep(op);
      for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
        if (kernel.isStepInput(index)) step->add_inputs(values_.StorageOf(operand).value);
      }
      for (mlir::Value result : op->getResults()) step->add_outputs(values_.StorageOf(result).value);
      const bool gathers = mlir::isa<ir::GroupAllGatherOp>(op);
      for (auto [index, whole] : llvm::enumerate(WholesOf(op))) {
        if (!IsRoundedUp(op, index)) continue;
        (gathers ? step->mutable_outputs() : step->mutable_inputs())
            ->Set(static_cast<int>(index), values_.StorageOf(whole).padded_value);
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
  if (mlir::failed(values_.Run())) return mlir::failure();
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
