// What the passes of the rank level share.
#ifndef WEFT_COMPILER_RANK_UTIL_H_
#define WEFT_COMPILER_RANK_UTIL_H_

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

// Persistent buffers of a template by role; adds those that are missing, at the head of the list behind the others.
class PersistentBuffers {
 public:
  explicit PersistentBuffers(ir::TemplateOp t);
  mlir::Value Get(ir::RoleAttr role, ir::BufferType type);
  // Null if there is none.
  mlir::Value Find(ir::RoleAttr role) const { return buffers_.lookup(role); }

 private:
  ir::TemplateOp template_;
  mlir::Operation* last_ = nullptr;
  llvm::DenseMap<mlir::Attribute, mlir::Value> buffers_;
};

// Coordinate that a template pins on `axis`, 0 if it does not.
int64_t PinnedCoordinate(ir::TemplateOp t, llvm::StringRef axis);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_UTIL_H_
