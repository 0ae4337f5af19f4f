// Ops of the graph level: ops that hold other ops (structure_ops.td), and kernels (forward_ops, backward_ops,
// transformer_ops, pointwise_ops, attention_ops, image_ops, optimizer_ops, collective_ops, split_ops).
#ifndef WEFT_IR_GRAPH_OPS_H_
#define WEFT_IR_GRAPH_OPS_H_

#include "ir/dialect.h"
#include "ir/interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "ir/structure_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/forward_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/backward_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/transformer_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/pointwise_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/attention_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/image_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/optimizer_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/collective_ops.h.inc"
#define GET_OP_CLASSES
#include "ir/split_ops.h.inc"

namespace weft::ir {

// True if the op writes the loss of a microbatch. The reverse pass begins at this op.
inline bool IsLoss(mlir::Operation* op) {
  return mlir::isa_and_nonnull<CrossEntropyOp, CrossEntropyCombineOp, SquaredErrorOp>(op);
}

// True if the op makes the scores or the probabilities of attention (the values between q k^T and p v), with dropout or
// without.
bool MakesProbabilities(mlir::Operation* op);

// True if `value` is a rank's part of a weight, and either the part is gathered from ranges or its gradient is cut into
// ranges.
inline bool IsGatheredWeight(mlir::Value value) {
  if (value.getDefiningOp<CutGradientsOp>()) return true;
  auto gather = value.getDefiningOp<GroupAllGatherOp>();
  return gather && gather.getPurpose() == Purpose::GatherWeights;
}

// True if `value` is gathered from parts on several ranks, without a sum. Such a value is a weight or, with sequence
// parallelism, the rows of an activation.
inline bool IsGathered(mlir::Value value) { return static_cast<bool>(value.getDefiningOp<GroupAllGatherOp>()); }

}  // namespace weft::ir

#endif  // WEFT_IR_GRAPH_OPS_H_
