// The parts of the pass build-segments: the forward and backward of a stage, and the segments of an optimizer step.
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

// A value that crosses between stages. `use` is 0 for the value that goes to the next stage, and i for skip connection
// i of the model.
struct Crossing {
  mlir::Value value;
  int32_t use = 0;
};

// The part of the graph that one stage holds.
struct StageContent {
  int32_t stage = 0;
  // Kernel ops in order.
  std::vector<mlir::Operation*> ops;
  // `inputs` are the values that the stage reads from earlier stages. `outputs` are the values that later stages read
  // from it. Both are in the order of `use`: first the value of the chain (use 0), then skip connections. The first
  // stage has no chain input, and the last stage no chain output.
  std::vector<Crossing> inputs;
  std::vector<Crossing> outputs;
  // Layers whose forward runs again in the backward, each with its group. A value that one layer of a group makes for
  // another layer of the group is recomputed too.
  std::map<int64_t, int64_t> recomputed;
  // True if the backward recomputes the ops that make attention's probabilities, in all layers.
  bool recomputes_probabilities = false;
  StageUses uses;
};

// A tensor's declaration.
struct TensorInfo {
  ir::TensorOp op;
  // Type of the rank's part of the tensor, as forward and backward read it.
  mlir::RankedTensorType Type(mlir::Type element = {}) { return Stored(op.getType(), element); }
  // Types of the gradients, and of the states that the optimizer keeps.
  mlir::RankedTensorType GradType(mlir::Type element) {
    return Stored(op.getGradType().value_or(op.getType()), element);
  }
  mlir::RankedTensorType StateType(mlir::Type element) {
    return Stored(op.getStateType().value_or(op.getType()), element);
  }
  // True for ZeRO stage 1: the backward produces more of the gradient than the optimizer reads. The optimizer gets its
  // part at the end of the iteration.
  bool CutsGradientAtEnd() { return GradType({}).getShape() != StateType({}).getShape(); }
  // True for ZeRO stages 1 and 2 (and for the layers that keep their parameters in stage 3): forward and backward read
  // more of the parameter than the optimizer updates, so the parameter is gathered after the update.
  bool GathersAtEnd() { return Type().getShape() != StateType({}).getShape(); }

 private:
  static mlir::RankedTensorType Stored(mlir::Type type, mlir::Type element) {
    auto stored = mlir::cast<mlir::RankedTensorType>(type);
    return element ? mlir::RankedTensorType::get(stored.getShape(), element) : stored;
  }
};

// Builds a segment: its arguments, ops and results.
class SegmentBuilder {
 public:
  // `rank` is given only for segments that belong to a rank instead of a stage.
  SegmentBuilder(mlir::OpBuilder& module_builder, llvm::StringRef name, ir::SegmentKind kind, int32_t stage,
                 int32_t rank = -1);

  // Returns the argument with this role. Adds it if the segment does not have it yet.
  mlir::Value Argument(ir::RoleAttr role, mlir::Type type);
  ir::RoleAttr Role(ir::Role role, int32_t tensor = -1, int32_t use = 0);
  // Makes `value` the segment's result for `role`. A later call for the same role replaces it.
  void SetResult(ir::RoleAttr role, mlir::Value value);
  // The current content of `role`: the result so far, or the argument if there is none.
  mlir::Value Current(ir::RoleAttr role, mlir::Type type);
  // Sets the trace name of an op and returns the op.
  template <typename Op>
  Op Named(Op op, llvm::StringRef name) {
    op->setAttr(ir::kNameAttr, builder_.getStringAttr(name));
    return op;
  }
  // Writes the argument roles into the segment before Finish, for code that reads the roles from the segment.
  void WriteArgumentRoles();
  // Ends the segment and sorts its arguments by role, tensor and use. Erases a segment without ops and returns null
  // instead.
  ir::SegmentOp Finish();

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location loc() { return segment_.getLoc(); }

 private:
  void SortArguments();

  ir::SegmentOp segment_;
  mlir::OpBuilder builder_;
  // The roles of the arguments. They are set on the segment only once, because the context keeps every list of roles
  // that the segment ever had.
  llvm::SmallVector<mlir::Attribute> argument_roles_;
  llvm::DenseMap<mlir::Attribute, mlir::Value> arguments_;
  llvm::SmallVector<mlir::Attribute> result_roles_;
  llvm::SmallVector<mlir::Value> results_;
  llvm::DenseMap<mlir::Attribute, size_t> result_index_;
};

// The kinds of backward that a stage gets.
struct Backwards {
  bool whole = true;
  bool halves = false;
  // Halves: the input half computes the gradients of norms' weights, and the weight half adds them.
  bool norms_in_input_half = false;
  // Halves: the weight half gathers rows of activations for itself, instead of reading what the input half gathered.
  bool gather_again = false;
};

// Adds the forward of a stage to the module, and its backward unless `training` is null.
mlir::LogicalResult BuildForwardAndBackward(mlir::OpBuilder& builder, const StageContent& content,
                                            std::vector<TensorInfo>& tensors, const Training* training,
                                            const Backwards& backwards);

// GradientAxes returns the mesh axes that cut the optimizer's gradient of one tensor. NormAxes returns the mesh axes
// that cut the gradient of any tensor; norms are summed over these axes.
std::set<std::string> GradientAxes(ir::TensorOp tensor);
std::set<std::string> NormAxes(std::vector<TensorInfo>& tensors);

// Adds grad_norm, scale_gradients and optimizer_step for a rank of the pipeline.
void BuildStepSegments(mlir::OpBuilder& builder, int32_t rank, const RankContent& content,
                       std::vector<TensorInfo>& tensors, const Training& training);

}  // namespace weft

#endif  // WEFT_COMPILER_BACKWARD_BUILD_SEGMENTS_H_
