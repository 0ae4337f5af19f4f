#include "compiler/export/segment_storage.h"

#include "absl/strings/str_cat.h"
#include "compiler/segments/cost_of_ops.h"
#include "compiler/segments/tensor_room.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {
namespace {

// Number of elements that the parts of all members have together, for the `index`-th tensor that `op` gathers or
// scatters; 0 if `op` does neither.
int64_t ElementsOfParts(mlir::Operation* op, size_t index) {
  auto elements = [](mlir::Value part) { return mlir::cast<mlir::RankedTensorType>(part.getType()).getNumElements(); };
  if (auto gather = mlir::dyn_cast<ir::GroupAllGatherOp>(op)) {
    return elements(gather.getInputs()[index]) * static_cast<int64_t>(gather.getMembers());
  }
  auto scatter = mlir::dyn_cast<ir::GroupReduceScatterOp>(op);
  return scatter ? elements(scatter.getOutputs()[index]) * static_cast<int64_t>(scatter.getMembers()) : 0;
}

// True for roles whose buffers live for the whole run. Detached steps may use such buffers after their action has
// ended.
bool OutlivesActions(ir::Role role) {
  return role == ir::Role::Deferred || role == ir::Role::Param || role == ir::Role::Master || role == ir::Role::Grad ||
         role == ir::Role::GradAccumulator;
}

}  // namespace

mlir::ValueRange WholesOf(mlir::Operation* op) {
  if (auto gather = mlir::dyn_cast<ir::GroupAllGatherOp>(op)) return gather.getOutputs();
  if (auto scatter = mlir::dyn_cast<ir::GroupReduceScatterOp>(op)) return scatter.getInputs();
  return {};
}

bool IsRoundedUp(mlir::Operation* op, size_t index) {
  auto whole = mlir::cast<mlir::RankedTensorType>(WholesOf(op)[index].getType());
  return ElementsOfParts(op, index) != whole.getNumElements();
}

int SegmentStorage::AddStorage(mlir::Value value, std::string name, ir::RoleAttr role) {
  storages_.emplace_back();
  storages_.back().type = mlir::cast<mlir::RankedTensorType>(value.getType());
  storages_.back().name = std::move(name);
  storages_.back().role = role;
  same_as_.push_back(static_cast<int>(storages_.size()) - 1);
  return same_as_.back();
}

std::vector<int> SegmentStorage::places() const {
  std::vector<int> places;
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (same_as_[i] == static_cast<int>(i)) places.push_back(static_cast<int>(i));
  }
  return places;
}

std::string SegmentStorage::RoleName(ir::RoleAttr role) const {
  std::string name = ir::stringifyRole(role.getRole()).str();
  if (role.getTensor() >= 0) {
    const size_t index = role.getTensor();
    ir::TensorOp tensor = index < tensors_.size() ? tensors_[index] : ir::TensorOp();
    absl::StrAppend(&name, " ", tensor ? tensor.getSymName().str() : absl::StrCat("tensor ", index));
  }
  if (role.getRole() == ir::Role::Saved || role.getRole() == ir::Role::SavedGrad) {
    absl::StrAppend(&name, " ", role.getUse());
  } else if (role.getUse() > 0) {
    absl::StrAppend(&name, " use ", role.getUse());
  }
  return name;
}

mlir::LogicalResult SegmentStorage::PlaceReturned(mlir::Value value, ir::RoleAttr role) {
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

mlir::LogicalResult SegmentStorage::PlaceValues() {
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

int SegmentStorage::InPlaceOperand(mlir::Operation& op, unsigned index) {
  if (!mlir::isa<ir::GroupAllReduceOp>(op)) return -1;
  mlir::Value operand = op.getOperand(index);
  mlir::Operation* maker = operand.getDefiningOp();
  if (!maker || storages_[storage_of_.lookup(operand)].role) return -1;
  if (llvm::count(op.getOperands(), operand) > 1) return -1;
  // The storage may be updated in place only if no later op reads the operand.
  const bool last = llvm::all_of(operand.getUsers(),
                                 [&](mlir::Operation* user) { return user == &op || user->isBeforeInBlock(&op); });
  return last ? static_cast<int>(index) : -1;
}

void SegmentStorage::DeferDetached() {
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

mlir::LogicalResult SegmentStorage::CheckDetached() {
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

// Finds the places that need more elements than their type has: rounded-up parts have more elements together than the
// tensor that they are parts of.
mlir::LogicalResult SegmentStorage::MakeRoom() {
  for (Storage& storage : storages_) {
    if (!storage.role || storage.role.getTensor() < 0) continue;
    const size_t index = storage.role.getTensor();
    if (index >= tensors_.size()) continue;
    ir::TensorOp tensor = tensors_[index];
    const ir::Role role = storage.role.getRole();
    const bool gradient = role == ir::Role::Grad || role == ir::Role::GradAccumulator;
    if (role == ir::Role::Param || (gradient && !tensor.getGradType())) storage.room = PaddedElements(tensor);
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

mlir::LogicalResult SegmentStorage::Touch(mlir::Operation* op, int step) {
  auto kernel = mlir::cast<ir::KernelInterface>(op);
  for (mlir::Value operand : op->getOperands()) {
    Storage& storage = StorageOf(operand);
    if (storage.content != operand) {
      mlir::InFlightDiagnostic error = op->emitOpError() << "[export_segments_c3] reads '" << storage.name
                                                         << "' after another value has taken its storage";
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
    // Only additions and all-reduces may write over an operand that their result is not tied to.
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

mlir::LogicalResult SegmentStorage::WalkSteps() {
  for (mlir::BlockArgument argument : segment_.getBody().getArguments()) StorageOf(argument).content = argument;
  for (auto [index, op] : llvm::enumerate(steps_)) {
    if (mlir::failed(Touch(op, static_cast<int>(index)))) return mlir::failure();
  }
  for (auto [index, value] : llvm::enumerate(ret_.getValues())) {
    if (StorageOf(value).content == value) continue;
    return ret_.emitOpError() << "[export_segments_c5] the result '" << RoleName(segment_.getResultRole(index))
                              << "' is overwritten: a later step writes another value to its storage";
  }
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (same_as_[i] == static_cast<int>(i) && storages_[i].first_step < 0) {
      return segment_.emitOpError() << "[export_segments_c6] no step uses its argument '" << storages_[i].name << "'";
    }
  }
  return mlir::success();
}

mlir::LogicalResult SegmentStorage::Run() {
  if (mlir::failed(PlaceValues())) return mlir::failure();
  DeferDetached();
  if (mlir::failed(CheckDetached()) || mlir::failed(WalkSteps())) return mlir::failure();
  return MakeRoom();
}

}  // namespace weft
