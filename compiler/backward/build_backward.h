// Builds forward and backward of one stage. Both are first built in one block, so that the backward's ops simply read
// forward values (build_backward.cc). The forward values that the backward reads are the values to save. After that,
// the block is split into segments (split_backward.cc).
#ifndef WEFT_COMPILER_BACKWARD_BUILD_BACKWARD_H_
#define WEFT_COMPILER_BACKWARD_BUILD_BACKWARD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/backward/build_segments.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/IRMapping.h"

namespace weft {

class StageDifferentiator {
 public:
  StageDifferentiator(mlir::OpBuilder& builder, const StageContent& content, std::vector<TensorInfo>& tensors,
                      const Training* training, const Backwards& backwards)
      : module_builder_(builder), content_(content), tensors_(tensors), training_(training), backwards_(backwards) {}

  mlir::LogicalResult Run();

 private:
  // Builds the forward of the stage; the stage's inputs are arguments of the block.
  void BuildForward(SegmentBuilder& both);
  // Appends the backward.
  mlir::LogicalResult BuildBackward(SegmentBuilder& both);
  mlir::LogicalResult Differentiate(mlir::Operation* op, SegmentBuilder& both);
  // Applies the loss scale to the derivative of the loss, which is among the ops after `before` (rule P11).
  void ScaleLoss(mlir::Operation* before, SegmentBuilder& both);
  // Sum of the gradients of one value from the readers in one layer.
  struct LayerSum {
    mlir::Value value;
    // The last op that added to it, and its name.
    mlir::Operation* reader = nullptr;
    std::string name;
    // True if the value is a gathered weight.
    bool weight = false;
  };
  // Adds a gradient to the sum of its layer. Because gradients are summed layer by layer, a stage boundary between
  // layers, where each side sums its own gradients, does not change any bit of the result. The exception: three or more
  // stages read a value, and one of them reads it in several layers.
  void AddGradient(mlir::Value value, mlir::Value gradient, mlir::Operation* reader, llvm::StringRef name,
                   SegmentBuilder& both);
  mlir::Value AddTogether(mlir::Value a, mlir::Value b, const LayerSum& sum, SegmentBuilder& both);
  // Returns the complete gradient of `value`. All readers of `value` must already have added their gradients.
  mlir::Value GradientOf(mlir::Value value, SegmentBuilder& both);
  // FindSaved, EmitForward and EmitBackward split the block into segments.
  void FindSaved();
  void EmitForward();
  void EmitBackward();
  void MoveNormGradients();
  // EmitBackwardInput and EmitBackwardWeight make the two halves of the backward. FindSavedGradients finds the values
  // that the first half hands to the second.
  void FindSavedGradients();
  void EmitBackwardInput();
  void EmitBackwardWeight();

  // Maps `value`, a saved value or an argument of the block, to the argument of `segment` that stands for it. Does
  // nothing for other values.
  void MapArgument(mlir::Value value, SegmentBuilder& segment, mlir::IRMapping& map);
  // Clones the ops that the backward runs again before it can read `value`.
  void Recompute(mlir::Value value, SegmentBuilder& segment, mlir::IRMapping& map,
                 llvm::DenseSet<mlir::Operation*>& done);
  // Runs again, before the backward of a layer, everything that the layer's backward needs. It does nothing unless op
  // `first` of the backward is the first op of its layer and the ops to run again include collectives of activations.
  // It leaves out the ops for operands that the backward gathers for itself. If the recomputation ran later, its
  // collectives would have to wait behind the layer's sums of gradients.
  void RecomputeLayer(size_t first, SegmentBuilder& segment, mlir::IRMapping& map,
                      llvm::DenseSet<mlir::Operation*>& done);
  void SetBackwardResults(SegmentBuilder& segment, const mlir::IRMapping& map, bool inputs, bool weights);

  // Removes weft.fan_out and weft.cut_gradients, which have no purpose once the gradients exist.
  void FoldFanOuts();

  bool IsForward(mlir::Operation* op) const { return position_.count(op) > 0; }
  static int64_t LayerOf(mlir::Operation* op) { return op->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr).getInt(); }
  // The group of layers that are recomputed together and that contains the layer of `op`; -1 for none.
  int64_t RecomputeGroupOf(mlir::Operation* op) const {
    auto found = content_.recomputed.find(LayerOf(op));
    return found == content_.recomputed.end() ? -1 : found->second;
  }
  // True if the backward computes `value` again instead of reading what the forward saved. `value` is a result of the
  // forward. If one recompute group makes a value for another group, the value is an input of the other group and is
  // never recomputed.
  bool IsRecomputed(mlir::Value value) const {
    mlir::Operation* op = value.getDefiningOp();
    // Gathered values are gathered again, because saving them would undo the sharding. (weft-cache-gathered may save
    // gathered weights.)
    if (ir::IsGathered(value)) return true;
    if (content_.recomputes_probabilities && ir::MakesProbabilities(op)) return true;
    const int64_t group = RecomputeGroupOf(op);
    if (ir::IsLoss(op) || group < 0) return false;
    return llvm::all_of(value.getUsers(),
                        [&](mlir::Operation* user) { return !IsForward(user) || RecomputeGroupOf(user) == group; });
  }
  // True if the weight half gathers `value`, rows of an activation or of its gradient, for itself.
  bool GathersAgain(mlir::Value value) const {
    auto gather = value.getDefiningOp<ir::GroupAllGatherOp>();
    return backwards_.gather_again && gather && gather.getPurpose() == ir::Purpose::Tensor;
  }
  // The values that the weight half needs to read `value`: its rank's own part if the half gathers it, else itself.
  llvm::SmallVector<mlir::Value> SourcesOf(mlir::Value value) const {
    if (!GathersAgain(value)) return {value};
    return llvm::to_vector(value.getDefiningOp()->getOperands());
  }
  std::string SegmentName(llvm::StringRef kind) const {
    return ("stage" + llvm::Twine(content_.stage) + "." + kind).str();
  }
  // Forward ops that must run again before `value` can be read, in forward order. Ops in `done` are left out.
  std::vector<mlir::Operation*> RecomputeList(mlir::Value value, const llvm::DenseSet<mlir::Operation*>& done) const;

  mlir::OpBuilder& module_builder_;
  const StageContent& content_;
  std::vector<TensorInfo>& tensors_;
  const Training* training_;
  const Backwards& backwards_;

  // The block with forward and backward, and the ops of each.
  ir::SegmentOp block_;
  std::vector<mlir::Operation*> forward_;
  std::vector<mlir::Operation*> backward_;
  llvm::DenseMap<mlir::Operation*, size_t> position_;
  // The stage's inputs, outputs and losses as values of this block.
  std::vector<Crossing> inputs_;
  std::vector<Crossing> outputs_;
  mlir::Value losses_;
  // The tensor and use of each operand that is a parameter of the graph.
  llvm::DenseMap<mlir::OpOperand*, std::pair<int32_t, int32_t>> parameters_;
  llvm::DenseSet<mlir::Value> needs_gradient_;
  // The gradients computed so far. `gradients_` holds, for each value, the sum over the layers that are done and over
  // later stages. `layer_sums_` holds the sum over the readers in the current layer, the last reader first.
  llvm::DenseMap<mlir::Value, mlir::Value> gradients_;
  llvm::DenseMap<mlir::Value, LayerSum> layer_sums_;
  // Results of the backward.
  std::vector<std::pair<ir::RoleAttr, mlir::Value>> backward_results_;
  std::vector<mlir::Value> saved_;
  llvm::DenseMap<mlir::Value, int32_t> saved_index_;
  // Ops of the first half of the backward, and the values that the second half reads from it, including the incoming
  // gradient.
  llvm::DenseSet<mlir::Operation*> input_half_;
  llvm::SetVector<mlir::Value> saved_gradients_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_BACKWARD_BUILD_BACKWARD_H_
