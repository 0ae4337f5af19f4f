// Which value of a weft.segment lies in which place.
//
// A result that is tied to an operand lies where the operand lies; a result that is returned lies in the operand of its
// role; every other one has a place of its own. What may go wrong with places that are used again (a value read after
// something else took its place) is checked step by step.
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

// Where values of a segment begin.
inline constexpr int64_t kValueAlignment = 64;

// One tensor's place; it may hold one value after the other.
struct Storage {
  mlir::RankedTensorType type;
  std::string name;
  // Null for a place in the workspace.
  ir::RoleAttr role;
  // What it holds, while steps are walked.
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

// What `op` gathers into, if it is a group_all_gather, or scatters from, if it is a group_reduce_scatter.
mlir::ValueRange WholesOf(mlir::Operation* op);

// Whether the members' parts of the `index`-th of these have more elements together than it has.
bool IsRoundedUp(mlir::Operation* op, size_t index);

class SegmentStorage {
 public:
  // `tensors`: those of the module, by index.
  SegmentStorage(ir::SegmentOp segment, const std::vector<ir::TensorOp>& tensors)
      : segment_(segment), ret_(segment.getReturn()), tensors_(tensors) {}

  // Finds and checks the places. Errors are emitted at the ops.
  mlir::LogicalResult Run();

  const std::vector<mlir::Operation*>& steps() const { return steps_; }
  // Of all different places, ascending.
  std::vector<int> places() const;
  Storage& at(int place) { return storages_[place]; }
  int IndexOf(mlir::Value value) const { return Find(storage_of_.lookup(value)); }
  Storage& Of(mlir::Value value) { return storages_[IndexOf(value)]; }

 private:
  mlir::LogicalResult PlaceValues();
  mlir::LogicalResult PlaceReturned(mlir::Value value, ir::RoleAttr role);
  // The operand whose storage a collective may put result `index` into, as nothing reads it afterwards; -1 if none.
  int InPlaceOperand(mlir::Operation& op, unsigned index);
  void DeferDetached();
  mlir::LogicalResult CheckDetached();
  mlir::LogicalResult MakeRoom();
  mlir::LogicalResult WalkSteps();
  mlir::LogicalResult Touch(mlir::Operation* op, int step);

  std::string RoleName(ir::RoleAttr role) const;
  // Places that were found to be the same.
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
