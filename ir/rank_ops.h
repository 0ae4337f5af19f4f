// Ops of the rank level (rank_ops.td), and how passes see any action without knowing its kind.
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

// Whether actions that run a segment define the buffer for this operand, instead of taking it: boundary tensors, saved
// activations and workspace are results of the action that writes them.
bool IsDefinedByAction(OperandAttr operand);

// An op of a template that becomes an Action: it has a token as its last result.
bool IsAction(mlir::Operation* op);
// Whether it runs a segment.
bool IsCompute(mlir::Operation* op);
// Whether it is a compute action of a microbatch: all but the end of the step.
bool IsMicrobatch(mlir::Operation* op);
// Whether it is an all_reduce, all_gather or reduce_scatter.
bool IsCollective(mlir::Operation* op);
struct CollectiveView {
  mlir::OperandRange sources;
  // Given ones, or those that it makes.
  mlir::ValueRange destinations;
  mlir::DictionaryAttr over;
  Purpose purpose;
  llvm::StringRef algorithm;
};
// What all collectives have.
CollectiveView ViewOf(mlir::Operation* collective);
// The token of an action's finish.
mlir::Value DoneToken(mlir::Operation* action);
// The tokens that an action waits for.
mlir::MutableOperandRange AfterTokens(mlir::Operation* action);

}  // namespace weft::ir

#endif  // WEFT_IR_RANK_OPS_H_
