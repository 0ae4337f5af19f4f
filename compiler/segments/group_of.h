// Converts the attribute `over` of ops into the message Group.
#ifndef WEFT_COMPILER_SEGMENTS_GROUP_OF_H_
#define WEFT_COMPILER_SEGMENTS_GROUP_OF_H_

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "proto/program.pb.h"

namespace weft {

// Returns the group of all axes of `over`, in the order of `over`.
Group GroupOf(mlir::DictionaryAttr over);
// Returns the group of the axes of `over` that `axes` lists, in the order of `axes`.
Group GroupOf(mlir::DictionaryAttr over, llvm::ArrayRef<mlir::StringAttr> axes);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_GROUP_OF_H_
