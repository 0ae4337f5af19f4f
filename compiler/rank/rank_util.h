// Helpers that the passes of the rank level share.
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

// The buffers that a compute action binds to the operands of its signature, by operand index.
std::vector<mlir::Value> BoundBuffers(mlir::Operation* compute, ir::SignatureOp signature);

// The persistent buffers of a template by role, and other buffers that are bound to a role. If a role has no buffer,
// Get creates one. The new buffer stands at the head of the list, after the other persistent buffers.
class PersistentBuffers {
 public:
  explicit PersistentBuffers(ir::TemplateOp t);
  mlir::Value Get(ir::RoleAttr role, ir::BufferType type);
  // Makes Get return this buffer, which need not be persistent.
  void Bind(ir::RoleAttr role, mlir::Value buffer) { buffers_[role] = buffer; }
  // The buffer of `role`, or null.
  mlir::Value Find(ir::RoleAttr role) const { return buffers_.lookup(role); }

 private:
  ir::TemplateOp template_;
  mlir::Operation* last_ = nullptr;
  llvm::DenseMap<mlir::Attribute, mlir::Value> buffers_;
};

// Stage, microbatches and lane of a compute action, or of one half of it. Half 0 is the whole action, or the forward of
// a pair; half 1 is the backward of a pair.
struct ActionPart {
  int stage = 0;
  int microbatch = 0;
  int lane = 0;
  int width = 1;
};
ActionPart PartOf(mlir::Operation* compute, int half = 0);

// Returns the stage to whose weight gradients this backward adds (for a pair, the stage of its backward); -1 if the
// action adds to no weight gradients.
int StageOfWeightGradients(mlir::Operation* compute);

// Returns the stage that makes the tensor that `reader` reads from `direction`: over the edge between neighbors (skip =
// 0), or over the skip-th skip edge of the program. -1 if there is no such edge.
int MakerStage(ir::ProgramOp program, ir::Direction direction, int reader, uint32_t skip);

// The coordinate that a template pins on `axis`, or 0.
int64_t PinnedCoordinate(ir::TemplateOp t, llvm::StringRef axis);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_RANK_UTIL_H_
