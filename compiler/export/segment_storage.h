// Decides where each value of a weft.segment is stored.
//
// A result that is tied to an operand is stored in the operand's place. A returned result is stored in the operand of
// its role. Every other result has a place of its own. Each step is checked for errors that come from reusing a place,
// such as a step that reads a value after another value has overwritten it.
#ifndef WEFT_COMPILER_EXPORT_SEGMENT_STORAGE_H_
#define WEFT_COMPILER_EXPORT_SEGMENT_STORAGE_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ir/checks.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/DenseMap.h"

namespace weft {

// Values of a segment begin at multiples of this many bytes.
inline constexpr int64_t kValueAlignment = 64;

// The place of a tensor. It may hold several values, one after the other.
struct Storage {
  mlir::RankedTensorType type;
  std::string name;
  // Null for a place in the workspace.
  ir::RoleAttr role;
  // The value that the place holds at the current step, while the steps are checked one after the other.
  mlir::Value content;
  bool read_first = false;
  bool written = false;
  int first_step = -1;
  int last_step = -1;
  // `detached`: detached steps use the storage. `attached`: other steps use it.
  bool detached = false;
  bool attached = false;
  int operand = -1;
  int64_t offset = 0;
  int value = -1;
  // Number of elements in the place, if it needs more than its type has; 0 if not. Parts that are gathered into it or
  // scattered from it are rounded up, so together they have more elements.
  int64_t room = 0;
  // Index of the exported value that gives this place `room` elements; -1 = none.
  int padded_value = -1;
  // True if a step of this segment gathers into the place, or scatters from it, in rounded-up parts.
  bool in_parts = false;
  // True if the place must end in zeros because parts are scattered from it. A separate step writes these zeros before
  // the first op writes to the place.
  bool ends_in_zeros = false;
  int zeros_value = -1;

  int64_t item() const { return ir::BytesOfTensor(type) / std::max<int64_t>(1, type.getNumElements()); }
  int64_t bytes() const { return room > 0 ? ir::SaturatingMultiply(room, item()) : ir::BytesOfTensor(type); }
  // Offset of the zeros. It is at or before the end of the type's elements, because values begin at multiples of 64.
  int64_t zeros_from() const {
    const int64_t unit = std::lcm(kValueAlignment, item());
    return ir::BytesOfTensor(type) / unit * unit;
  }
};

// The tensors that `op` gathers into, if it is a group_all_gather, or scatters from, if it is a group_reduce_scatter.
mlir::ValueRange WholesOf(mlir::Operation* op);

// True if the members' parts of the `index`-th of these tensors have more elements together than the tensor.
bool IsRoundedUp(mlir::Operation* op, size_t index);

class SegmentStorage {
 public:
  // `tensors`: the module's tensors, by index.
  SegmentStorage(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors)
      : segment_(segment), ret_(segment.getReturn()), tensors_(tensors) {}

  // Finds and checks the places. Errors are emitted at the ops.
  mlir::LogicalResult Run();

  const std::vector<mlir::Operation*>& steps() const { return steps_; }
  // Indices of all different places, ascending.
  std::vector<int> places() const;
  Storage& at(int place) { return storages_[place]; }
  int IndexOf(mlir::Value value) const { return Find(storage_of_.lookup(value)); }
  Storage& StorageOf(mlir::Value value) { return storages_[IndexOf(value)]; }

 private:
  mlir::LogicalResult PlaceValues();
  mlir::LogicalResult PlaceReturned(mlir::Value value, ir::RoleAttr role);
  // Index of the operand whose storage the collective may use for result `index`, because nothing reads the operand
  // afterwards; -1 if none.
  int InPlaceOperand(mlir::Operation& op, unsigned index);
  void DeferDetached();
  mlir::LogicalResult CheckDetached();
  mlir::LogicalResult MakeRoom();
  mlir::LogicalResult WalkSteps();
  mlir::LogicalResult Touch(mlir::Operation* op, int step);

  std::string RoleName(ir::RoleAttr role) const;
  // Some places turn out to be the same and are merged. Returns the place that `storage` was merged into.
  int Find(int storage) const {
    while (same_as_[storage] != storage) storage = same_as_[storage];
    return storage;
  }
  int AddStorage(mlir::Value value, std::string name, ir::RoleAttr role);

  ir::SegmentOp segment_;
  ir::ReturnOp ret_;
  const std::vector<ir::TensorOp>& tensors_;
  std::vector<mlir::Operation*> steps_;
  std::vector<Storage> storages_;
  std::vector<int> same_as_;
  llvm::DenseMap<mlir::Value, int> storage_of_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_EXPORT_SEGMENT_STORAGE_H_
