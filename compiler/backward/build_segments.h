// The parts of the pass build-segments: forward and backward of a stage, and the end of an optimizer step.
#ifndef WEFT_COMPILER_BACKWARD_BUILD_SEGMENTS_H_
#define WEFT_COMPILER_BACKWARD_BUILD_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/segments/rank_content.h"
#include "compiler/segments/training.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace weft {

// A value that crosses between stages, and its number: 0 = to the next stage, i = by skip connection i of the model.
struct Crossing {
  mlir::Value value;
  int32_t use = 0;
};

// What one stage holds of the graph.
struct StageContent {
  int32_t stage = 0;
  // Kernel ops in order.
  std::vector<mlir::Operation*> ops;
  // Values of the graph that come in from earlier stages and go out to later ones, by `use` of the boundary roles:
  // first the one from the stage before or to the stage after (0; none at the ends), then skip connections.
  std::vector<Crossing> inputs;
  std::vector<Crossing> outputs;
  // Layers whose forward runs again in the backward, and the group that each is of: what one layer of a group makes for
  // another is computed again too.
  std::map<int64_t, int64_t> recomputed;
  // The backward computes what makes attention's probabilities again, in all layers.
  bool recomputes_probabilities = false;
  StageUses uses;
};

// A tensor's declaration.
struct TensorInfo {
  ir::TensorOp op;
  // As forward and backward read it: the rank's part.
  mlir::RankedTensorType Type(mlir::Type element = {}) { return Stored(op.getType(), element); }
  // Of gradients, and of what the optimizer keeps.
  mlir::RankedTensorType GradType(mlir::Type element) {
    return Stored(op.getGradType().value_or(op.getType()), element);
  }
  mlir::RankedTensorType StateType(mlir::Type element) {
    return Stored(op.getStateType().value_or(op.getType()), element);
  }
  // ZeRO stage 1: backwards need more of the gradient than the optimizer, which gets its part at the end of the step.
  bool CutsGradientAtEnd() { return GradType({}).getShape() != StateType({}).getShape(); }
  // Stages 1 and 2: compute reads more of the parameter than the optimizer updates; it is gathered afterwards.
  bool GathersAtEnd() { return Type().getShape() != StateType({}).getShape(); }

 private:
  static mlir::RankedTensorType Stored(mlir::Type type, mlir::Type element) {
    auto stored = mlir::cast<mlir::RankedTensorType>(type);
    return element ? mlir::RankedTensorType::get(stored.getShape(), element) : stored;
  }
};

// A segment in the making: its arguments and what it returns.
class SegmentBuilder {
 public:
  // `rank` only for kinds that are of a rank.
  SegmentBuilder(mlir::OpBuilder& module_builder, llvm::StringRef name, ir::SegmentKind kind, int32_t stage,
                 int32_t rank = -1);

  // The argument with this role, made if it is not there yet.
  mlir::Value Argument(ir::RoleAttr role, mlir::Type type);
  ir::RoleAttr Role(ir::Role role, int32_t tensor = -1, int32_t use = 0);
  // `value` is what the segment leaves as `role`, unless a later call says otherwise.
  void SetResult(ir::RoleAttr role, mlir::Value value);
  // The current content of `role`: the result so far, else the argument.
  mlir::Value Current(ir::RoleAttr role, mlir::Type type);
  // Sets the trace name of an op and gives it back.
  template <typename Op>
  Op Named(Op op, llvm::StringRef name) {
    op->setAttr(ir::kNameAttr, builder_.getStringAttr(name));
    return op;
  }
  // For who reads the roles of arguments from a segment that is not finished.
  void WriteArgumentRoles();
  // Ends the segment and puts its arguments in order of role, tensor and use. Without a single op it is erased instead
  // and null.
  ir::SegmentOp Finish();

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location loc() { return segment_.getLoc(); }

 private:
  void SortArguments();

  ir::SegmentOp segment_;
  mlir::OpBuilder builder_;
  // The segment gets them once: every list of roles that it ever had stays in the context.
  llvm::SmallVector<mlir::Attribute> argument_roles_;
  llvm::DenseMap<mlir::Attribute, mlir::Value> arguments_;
  llvm::SmallVector<mlir::Attribute> result_roles_;
  llvm::SmallVector<mlir::Value> results_;
  llvm::DenseMap<mlir::Attribute, size_t> result_index_;
};

// Which backwards a stage gets.
struct Backwards {
  bool whole = true;
  bool halves = false;
};

// Adds the forward of a stage to the module, and unless `training` is null the backward.
mlir::LogicalResult BuildForwardAndBackward(mlir::OpBuilder& builder, const StageContent& content,
                                            std::vector<TensorInfo>& tensors, const Training* training,
                                            const Backwards& backwards);

// Mesh axes that cut the gradient of a tensor as the optimizer has it, and those that cut some gradient: norms are
// summed over these.
std::set<std::string> GradientAxes(ir::TensorOp tensor);
std::set<std::string> NormAxes(std::vector<TensorInfo>& tensors);

// Adds grad_norm, scale_gradients and optimizer_step of a rank of the pipeline.
void BuildStepSegments(mlir::OpBuilder& builder, int32_t rank, const RankContent& content,
                       std::vector<TensorInfo>& tensors, const Training& training);

}  // namespace weft

#endif  // WEFT_COMPILER_BACKWARD_BUILD_SEGMENTS_H_
