// What the passes of the rank level share.
#ifndef WEFT_COMPILER_RANK_RANK_UTIL_H_
#define WEFT_COMPILER_RANK_RANK_UTIL_H_

#include <vector>

#include "ir/rank_ops.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Builders.h"

namespace weft {

// Templates of a program in order.
std::vector<ir::TemplateOp> Templates(ir::ProgramOp program);

// Ops of a template that become actions, in list order.
std::vector<mlir::Operation*> Actions(ir::TemplateOp t);

// The signature that a compute action runs.
ir::SignatureOp SignatureOf(mlir::Operation* compute);

// The buffer that a compute action binds to operand `index` of its signature.
std::vector<mlir::Value> BoundBuffers(mlir::Operation* compute, ir::SignatureOp signature);

// Persistent buffers of a template by role, and others that are bound to one; adds those that are missing, at the head
// of the list behind the others.
class PersistentBuffers {
 public:
  explicit PersistentBuffers(ir::TemplateOp t);
  mlir::Value Get(ir::RoleAttr role, ir::BufferType type);
  // Has Get give this buffer, which need not be persistent.
  void Bind(ir::RoleAttr role, mlir::Value buffer) { buffers_[role] = buffer; }
  // Null if there is none.
  mlir::Value Find(ir::RoleAttr role) const { return buffers_.lookup(role); }

 private:
  ir::TemplateOp template_;
  mlir::Operation* last_ = nullptr;
  llvm::DenseMap<mlir::Attribute, mlir::Value> buffers_;
};

// What one half of a compute action of microbatches is of: half 0 all of it, or the forward of a pair; half 1 the
// backward of a pair.
struct ActionPart {
  int stage = 0;
  int microbatch = 0;
  int lane = 0;
  int width = 1;
};
ActionPart PartOf(mlir::Operation* compute, int half = 0);

// Whether it is a backward that adds to the gradients of weights, and of which stage (of a pair the backward's); -1 if
// it is not.
int StageOfWeightGradients(mlir::Operation* compute);

// The stage that makes what `reader` reads from `direction` over the edge between neighbours (skip = 0) or the skip-th
// skip edge of the program. -1 if there is no such edge.
int MakerStage(ir::ProgramOp program, ir::Direction direction, int reader, uint32_t skip);

// Coordinate that a template pins on `axis`, 0 if it does not.
int64_t PinnedCoordinate(ir::TemplateOp t, llvm::StringRef axis);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_RANK_UTIL_H_
