// The dialect `weft`: dialect object, types, attributes and enums. Ops are in graph_ops.h and rank_ops.h.
#ifndef WEFT_IR_DIALECT_H_
#define WEFT_IR_DIALECT_H_

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

// This generated code needs the includes above.
#include "ir/dialect.h.inc"
#include "ir/enums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/types.h.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/attributes.h.inc"

namespace weft::ir {

// Names of the discardable attributes of ops at the graph level.
inline constexpr llvm::StringLiteral kNameAttr = "name";
inline constexpr llvm::StringLiteral kLayerAttr = "layer";
inline constexpr llvm::StringLiteral kStageAttr = "stage";
// Values of `part`: "input", "weight", "recompute".
inline constexpr llvm::StringLiteral kPartAttr = "part";
// Attribute of a module with segments: the names of the model's skip connections (rule P4), in order.
inline constexpr llvm::StringLiteral kSkipsAttr = "weft.skips";

// True if segments of this kind belong to a rank of the pipeline rather than to a stage.
inline bool IsOfRank(SegmentKind kind) {
  return kind == SegmentKind::GradNorm || kind == SegmentKind::ScaleGradients || kind == SegmentKind::OptimizerStep;
}

}  // namespace weft::ir

#endif  // WEFT_IR_DIALECT_H_
