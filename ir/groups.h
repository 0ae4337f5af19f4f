// Reads the members of a collective's group from the attribute `over` of ops (rule P8).
#ifndef WEFT_IR_GROUPS_H_
#define WEFT_IR_GROUPS_H_

#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// The coordinates that one entry of `over` selects on its axis: by one of the three fields, or all if none is set.
struct AxisGroup {
  llvm::ArrayRef<int64_t> indices;
  int64_t block = 0;
  int64_t stride = 0;
};

// Reads an entry: array<i64: ...>, {block = n : i64} or {stride = n : i64}. Returns false if the entry is none of these
// or n is not positive. Does not check the indices.
bool ReadAxisGroup(mlir::Attribute entry, AxisGroup* group);

// Checks all that can be checked without a mesh: entries are well formed, indices ascend from 0, block and stride are
// positive, and `members` is at least 2 and a multiple of each entry's block or number of indices. Messages begin with
// `id`.
mlir::LogicalResult CheckOver(mlir::Operation* op, llvm::StringRef id, mlir::DictionaryAttr over, int64_t members);

}  // namespace weft::ir

#endif  // WEFT_IR_GROUPS_H_
