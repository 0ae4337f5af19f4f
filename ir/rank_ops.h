// Ops of the rank level (rank_ops.td), and functions with which passes handle any kind of action.
#ifndef WEFT_IR_RANK_OPS_H_
#define WEFT_IR_RANK_OPS_H_

#include "ir/dialect.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "ir/rank_ops.h.inc"

namespace weft::ir {

// True if an action that runs a segment makes the buffer for this operand itself, instead of being given one. Boundary
// tensors, saved activations and workspaces are results of the action that writes them.
bool IsDefinedByAction(OperandAttr operand);

// True if the exporter turns this op of a template into an Action. The last result of such an op is a token.
bool IsAction(mlir::Operation* op);
// True if the op runs a segment.
bool IsCompute(mlir::Operation* op);
// True for a compute action of a microbatch: every compute action except those at the end of the step.
bool IsMicrobatch(mlir::Operation* op);
// True for all_reduce, all_gather and reduce_scatter.
bool IsCollective(mlir::Operation* op);
struct CollectiveView {
  mlir::OperandRange sources;
  // The op's results if it has outputs, else its destination operands.
  mlir::ValueRange destinations;
  mlir::DictionaryAttr over;
  Purpose purpose;
  llvm::StringRef algorithm;
};
// The properties that all collectives have.
CollectiveView ViewOf(mlir::Operation* collective);
// The token that marks the end of the action.
mlir::Value DoneToken(mlir::Operation* action);
// The tokens that an action waits for.
mlir::MutableOperandRange AfterTokens(mlir::Operation* action);

}  // namespace weft::ir

#endif  // WEFT_IR_RANK_OPS_H_
