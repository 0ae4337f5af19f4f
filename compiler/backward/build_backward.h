// Forward and backward of one stage. Both are first built in one block, so that the backward's ops simply read forward
// values (build_backward.cc); what they read decides what is saved, and then the block is split (split_backward.cc).
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
#include "mlir/IR/IRMapping.h"

namespace weft {

class StageDifferentiator {
 public:
  StageDifferentiator(mlir::OpBuilder& builder, const StageContent& content, std::vector<TensorInfo>& tensors,
                      const Training* training, const Backwards& backwards)
      : module_builder_(builder), content_(content), tensors_(tensors), training_(training), backwards_(backwards) {}

  mlir::LogicalResult Run();

 private:
  // Block with the forward of the stage, on arguments.
  void BuildForward(SegmentBuilder& both);
  // Appends the backward.
  mlir::LogicalResult BuildBackward(SegmentBuilder& both);
  mlir::LogicalResult Differentiate(mlir::Operation* op, SegmentBuilder& both);
  // The derivative of the loss, behind `before`, is of the loss times the scale (rule P11).
  void ScaleLoss(mlir::Operation* before, SegmentBuilder& both);
  // Gradients of one value from the readers of one layer.
  struct LayerSum {
    mlir::Value value;
    // The last op that added to it, and its name.
    mlir::Operation* reader = nullptr;
    std::string name;
    // Of a gathered weight.
    bool weight = false;
  };
  // Gradients add up layer by layer, so that a cut between layers, where each side sums its own, changes no bit (but
  // where three stages or more read a value and one of them with several layers).
  void AddGradient(mlir::Value value, mlir::Value gradient, mlir::Operation* reader, llvm::StringRef name,
                   SegmentBuilder& both);
  mlir::Value AddTogether(mlir::Value a, mlir::Value b, const LayerSum& sum, SegmentBuilder& both);
  // All of it; no reader may be left.
  mlir::Value GradientOf(mlir::Value value, SegmentBuilder& both);
  // Splits the block.
  void FindSaved();
  void EmitForward();
  void EmitBackward();
  // The halves of the backward: first the values that the first one hands to the second.
  void FindSavedGradients();
  void EmitBackwardInput();
  void EmitBackwardWeight();

  // The argument of `segment` that stands for `value`, a saved value or an argument of the block; nothing for others.
  void MapArgument(mlir::Value value, SegmentBuilder& segment, mlir::IRMapping& map);
  // Clones what the backward runs again before it can read `value`.
  void Recompute(mlir::Value value, SegmentBuilder& segment, mlir::IRMapping& map,
                 llvm::DenseSet<mlir::Operation*>& done);
  // At op `first` of the backward: if that is a layer's first, and some of what the layer's backward runs again are
  // collectives of activations, all of it, but for what the backward gathers for itself. The sums of gradients, which
  // run beside the products behind them, are then not in their way.
  void RecomputeLayer(size_t first, SegmentBuilder& segment, mlir::IRMapping& map,
                      llvm::DenseSet<mlir::Operation*>& done);
  void SetBackwardResults(SegmentBuilder& segment, const mlir::IRMapping& map, bool inputs, bool weights);

  // weft.fan_out and weft.cut_gradients have done their part once the gradients are there.
  void FoldFanOuts();

  bool IsForward(mlir::Operation* op) const { return position_.count(op) > 0; }
  static int64_t LayerOf(mlir::Operation* op) { return op->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr).getInt(); }
  // The group of layers that are computed again together and that `op` is of; -1 for none.
  int64_t RecomputeGroupOf(mlir::Operation* op) const {
    auto found = content_.recomputed.find(LayerOf(op));
    return found == content_.recomputed.end() ? -1 : found->second;
  }
  // Whether the backward computes `value`, made by the forward, again instead of reading what the forward saved. What
  // one group makes for another is the other's input and never recomputed.
  bool IsRecomputed(mlir::Value value) const {
    mlir::Operation* op = value.getDefiningOp();
    // What is gathered is gathered again: saving it would undo that it is cut (weft-cache-gathered may, of weights).
    if (ir::IsGathered(value)) return true;
    if (content_.recomputes_probabilities && ir::MakesProbabilities(op)) return true;
    const int64_t group = RecomputeGroupOf(op);
    if (ir::IsLoss(op) || group < 0) return false;
    return llvm::all_of(value.getUsers(),
                        [&](mlir::Operation* user) { return !IsForward(user) || RecomputeGroupOf(user) == group; });
  }
  std::string SegmentName(llvm::StringRef kind) const {
    return ("stage" + llvm::Twine(content_.stage) + "." + kind).str();
  }
  // Ops of the forward that must run again before `value` can be read, ascending, without those in `done`.
  std::vector<mlir::Operation*> RecomputeList(mlir::Value value, const llvm::DenseSet<mlir::Operation*>& done) const;

  mlir::OpBuilder& module_builder_;
  const StageContent& content_;
  std::vector<TensorInfo>& tensors_;
  const Training* training_;
  const Backwards& backwards_;

  // Of the block with both.
  ir::SegmentOp block_;
  std::vector<mlir::Operation*> forward_;
  std::vector<mlir::Operation*> backward_;
  llvm::DenseMap<mlir::Operation*, size_t> position_;
  // Of this block.
  std::vector<Crossing> inputs_;
  std::vector<Crossing> outputs_;
  mlir::Value losses_;
  // Parameter arguments of the graph: which tensor and use an operand is.
  llvm::DenseMap<mlir::OpOperand*, std::pair<int32_t, int32_t>> parameters_;
  llvm::DenseSet<mlir::Value> needs_gradient_;
  // What is known of the gradient of a value: the sum over the layers that are done (and over stages behind), and that
  // over the readers of the layer at hand, the last one first.
  llvm::DenseMap<mlir::Value, mlir::Value> gradients_;
  llvm::DenseMap<mlir::Value, LayerSum> layer_sums_;
  // What the backward returns.
  std::vector<std::pair<ir::RoleAttr, mlir::Value>> backward_results_;
  std::vector<mlir::Value> saved_;
  llvm::DenseMap<mlir::Value, int32_t> saved_index_;
  // Ops of the first half of the backward, and what the second reads of it (also the gradient that comes in).
  llvm::DenseSet<mlir::Operation*> input_half_;
  llvm::SetVector<mlir::Value> saved_gradients_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_BACKWARD_BUILD_BACKWARD_H_
