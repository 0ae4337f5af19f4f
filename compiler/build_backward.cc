// Forward and backward of one stage. Both are first built in one block, so that the backward's ops simply read forward
// values; what they read decides what is saved, and then the block is split.
#include <algorithm>

#include "compiler/build_segments.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/IRMapping.h"

namespace weft {

namespace {

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
  void SetBackwardResults(SegmentBuilder& segment, const mlir::IRMapping& map, bool inputs, bool weights);

  bool IsForward(mlir::Operation* op) const { return position_.count(op) > 0; }
  static int64_t LayerOf(mlir::Operation* op) { return op->getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr).getInt(); }
  // Whether the backward computes `value`, made by the forward, again instead of reading what the forward saved. What
  // one layer makes for another is the other's input and never recomputed.
  bool IsRecomputed(mlir::Value value) const {
    mlir::Operation* op = value.getDefiningOp();
    if (mlir::isa<ir::CrossEntropyOp>(op) || content_.recomputed.count(LayerOf(op)) == 0) return false;
    return llvm::all_of(value.getUsers(),
                        [&](mlir::Operation* user) { return !IsForward(user) || LayerOf(user) == LayerOf(op); });
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
  llvm::DenseMap<mlir::Value, mlir::Value> gradients_;
  // What the backward returns.
  std::vector<std::pair<ir::RoleAttr, mlir::Value>> backward_results_;
  std::vector<mlir::Value> saved_;
  llvm::DenseMap<mlir::Value, int32_t> saved_index_;
  // Ops of the first half of the backward, and what the second reads of it (also the gradient that comes in).
  llvm::DenseSet<mlir::Operation*> input_half_;
  llvm::SetVector<mlir::Value> saved_gradients_;
};

void StageDifferentiator::BuildForward(SegmentBuilder& both) {
  mlir::IRMapping map;

  for (const Crossing& input : content_.inputs) {
    mlir::Value argument = both.Argument(both.Role(ir::Role::Input, -1, input.use), input.value.getType());
    map.map(input.value, argument);
    needs_gradient_.insert(argument);
    inputs_.push_back({argument, input.use});
  }
  for (const auto& [tensor, uses] : content_.uses) {
    needs_gradient_.insert(both.Argument(both.Role(ir::Role::Param, tensor), tensors_[tensor].Type()));
  }
  for (mlir::Operation* op : content_.ops) {
    llvm::SmallVector<std::optional<std::pair<int32_t, int32_t>>> uses;
    for (mlir::Value operand : op->getOperands()) {
      uses.emplace_back();
      if (auto parameter = operand.getDefiningOp<ir::ParameterOp>()) {
        int32_t tensor = static_cast<int32_t>(parameter.getTensor());
        uses.back() = {tensor, static_cast<int32_t>(parameter.getUse())};
        map.map(operand, both.Argument(both.Role(ir::Role::Param, tensor), operand.getType()));
      } else if (mlir::isa<mlir::BlockArgument>(operand)) {
        map.map(operand, both.Argument(both.Role(ir::Role::LocalLosses), operand.getType()));
      }
    }
    mlir::Operation* clone = both.builder().clone(*op, map);
    clone->removeAttr(ir::kStageAttr);
    position_[clone] = forward_.size();
    forward_.push_back(clone);
    for (auto [operand, use] : llvm::zip(clone->getOpOperands(), uses)) {
      if (use) parameters_[&operand] = *use;
    }
    if (llvm::any_of(clone->getOperands(), [&](mlir::Value operand) { return needs_gradient_.contains(operand); })) {
      for (mlir::Value result : clone->getResults()) needs_gradient_.insert(result);
    }
    for (mlir::Operation* user : op->getUsers()) {
      if (auto yield = mlir::dyn_cast<ir::YieldOp>(user)) losses_ = map.lookup(yield.getLosses());
    }
  }
  for (const Crossing& output : content_.outputs) outputs_.push_back({map.lookup(output.value), output.use});
}

mlir::LogicalResult StageDifferentiator::Differentiate(mlir::Operation* op, SegmentBuilder& both) {
  mlir::OpBuilder& builder = both.builder();
  llvm::SmallVector<mlir::Value> result_gradients;
  bool reached = mlir::isa<ir::CrossEntropyOp>(op);
  for (mlir::Value result : op->getResults()) {
    result_gradients.push_back(gradients_.lookup(result));
    reached |= static_cast<bool>(result_gradients.back());
  }
  bool wanted = llvm::any_of(op->getOperands(), [&](mlir::Value v) { return needs_gradient_.contains(v); });
  if (!reached || !wanted) return mlir::success();
  auto differentiable = mlir::dyn_cast<ir::DifferentiableInterface>(op);
  if (!differentiable) {
    return op->emitOpError("[build_segments_c15] has no derivative, but a parameter's gradient depends on it");
  }
  llvm::SmallVector<ir::GradientRequest> requests;
  for (mlir::OpOperand& operand : op->getOpOperands()) {
    ir::GradientRequest request;
    auto parameter = parameters_.find(&operand);
    if (parameter != parameters_.end()) {
      auto [tensor, use] = parameter->second;
      request.type = tensors_[tensor].Type(training_->grads);
      if (training_->accumulation == IN_ORDER) {
        request.init = both.Argument(both.Role(ir::Role::Grad, tensor, use), request.type);
      }
    } else if (needs_gradient_.contains(operand.get())) {
      request.type = mlir::cast<mlir::RankedTensorType>(operand.get().getType());
    }
    requests.push_back(request);
  }
  mlir::Block* block = builder.getInsertionBlock();
  mlir::Operation* before = &block->back();
  llvm::SmallVector<mlir::Value> gradients = differentiable.buildBackward(builder, result_gradients, requests);

  auto name = op->getAttrOfType<mlir::StringAttr>(ir::kNameAttr);
  std::string base = name ? name.str() : op->getName().stripDialect().str();
  auto label = [&](mlir::Operation* made, llvm::StringRef part, llvm::StringRef suffix) {
    if (made->hasAttr(ir::kPartAttr)) return;
    made->setAttr(ir::kNameAttr, builder.getStringAttr(base + suffix));
    made->setAttr(ir::kLayerAttr, op->getAttr(ir::kLayerAttr));
    made->setAttr(ir::kPartAttr, builder.getStringAttr(part));
  };
  auto is_new = [&](mlir::Operation* made) {
    return made && made->getBlock() == block && before->isBeforeInBlock(made);
  };
  for (auto [operand, gradient] : llvm::zip(op->getOpOperands(), gradients)) {
    if (!gradient) continue;
    auto parameter = parameters_.find(&operand);
    if (parameter == parameters_.end()) {
      if (is_new(gradient.getDefiningOp())) label(gradient.getDefiningOp(), "input", ".dx");
      mlir::Value& sum = gradients_[operand.get()];
      if (sum) {
        auto add = builder.create<ir::AddOp>(op->getLoc(), sum.getType(), sum, gradient, mlir::Value());
        label(add, "input", ".dx_sum");
        sum = add;
      } else {
        sum = gradient;
      }
      continue;
    }
    if (is_new(gradient.getDefiningOp())) {
      label(gradient.getDefiningOp(), "weight",
            mlir::isa<ir::BiasGradientOp>(gradient.getDefiningOp()) ? ".db" : ".dw");
    }
    auto [tensor, use] = parameter->second;
    if (training_->accumulation == IN_ORDER) {
      backward_results_.push_back({both.Role(ir::Role::Grad, tensor, use), gradient});
      continue;
    }
    ir::RoleAttr role = both.Role(ir::Role::GradAccumulator, tensor, use);
    auto type = tensors_[tensor].Type(ir::Exact192Type::get(builder.getContext()));
    auto sum = builder.create<ir::ExactAccumulateOp>(op->getLoc(), type, gradient, both.Argument(role, type));
    label(sum, "weight", (".exact" + llvm::Twine(tensor)).str());
    backward_results_.push_back({role, sum});
  }
  // Ops that only lead to those labelled above.
  for (mlir::Operation* made = &block->back(); made != before; made = made->getPrevNode()) {
    const bool weight = llvm::all_of(made->getUsers(), [](mlir::Operation* user) {
      auto part = user->getAttrOfType<mlir::StringAttr>(ir::kPartAttr);
      return part && part.getValue() == "weight";
    });
    label(made, weight ? "weight" : "input", ".d");
  }
  return mlir::success();
}

mlir::LogicalResult StageDifferentiator::BuildBackward(SegmentBuilder& both) {
  if (outputs_.empty() && (!losses_ || !losses_.getDefiningOp<ir::CrossEntropyOp>())) {
    return forward_.back()->emitOpError("[build_segments_c16] the graph must yield the losses of a cross_entropy op");
  }
  // As within a stage, gradients are added last reader first: the furthest stage's, then nearer ones'.
  for (const Crossing& output : llvm::reverse(outputs_)) {
    mlir::Type type = output.value.getType();
    mlir::Value gradient = both.Argument(both.Role(ir::Role::OutputGrad, -1, output.use), type);
    mlir::Value& sum = gradients_[output.value];
    if (sum) {
      auto add = both.builder().create<ir::AddOp>(output.value.getLoc(), type, sum, gradient, mlir::Value());
      both.Named(add, "skip.dx_sum");
      add->setAttr(ir::kLayerAttr, output.value.getDefiningOp()->getAttr(ir::kLayerAttr));
      add->setAttr(ir::kPartAttr, both.builder().getStringAttr("input"));
      gradient = add;
    }
    sum = gradient;
  }
  for (mlir::Operation* op : llvm::reverse(forward_)) {
    if (mlir::failed(Differentiate(op, both))) return mlir::failure();
  }
  llvm::DenseSet<mlir::Value> handed_on;
  for (const Crossing& input : inputs_) {
    mlir::Value gradient = gradients_.lookup(input.value);
    if (!gradient) {
      return forward_.front()->emitOpError("[build_segments_c17] the loss does not depend on what this stage receives");
    }
    // A tensor that passes through is copied, and one that goes two ways: these are different buffers.
    if (mlir::isa<mlir::BlockArgument>(gradient) || !handed_on.insert(gradient).second) {
      gradient = both.Named(both.builder().create<ir::CastOp>(both.loc(), gradient.getType(), gradient), "copy");
      gradient.getDefiningOp()->setAttr(ir::kPartAttr, both.builder().getStringAttr("input"));
    }
    backward_results_.push_back({both.Role(ir::Role::InputGrad, -1, input.use), gradient});
  }
  return mlir::success();
}

std::vector<mlir::Operation*> StageDifferentiator::RecomputeList(mlir::Value value,
                                                                 const llvm::DenseSet<mlir::Operation*>& done) const {
  std::vector<mlir::Operation*> list;
  llvm::DenseSet<mlir::Operation*> seen;
  llvm::SmallVector<mlir::Value> work = {value};
  while (!work.empty()) {
    mlir::Value needed = work.pop_back_val();
    mlir::Operation* op = needed.getDefiningOp();
    if (!op || !IsForward(op) || !IsRecomputed(needed) || done.contains(op) || !seen.insert(op).second) continue;
    list.push_back(op);
    work.append(op->operand_begin(), op->operand_end());
  }
  llvm::sort(list, [&](mlir::Operation* a, mlir::Operation* b) { return position_.lookup(a) < position_.lookup(b); });
  return list;
}

void StageDifferentiator::FindSaved() {
  llvm::DenseSet<mlir::Value> saved;
  llvm::DenseSet<mlir::Operation*> done;
  auto read = [&](mlir::Value value) {
    mlir::Operation* op = value.getDefiningOp();
    if (op && IsForward(op) && !IsRecomputed(value)) saved.insert(value);
  };
  for (mlir::Operation* op : backward_) {
    for (mlir::Value operand : op->getOperands()) {
      for (mlir::Operation* again : RecomputeList(operand, done)) {
        done.insert(again);
        for (mlir::Value inner : again->getOperands()) read(inner);
      }
      read(operand);
    }
  }
  for (mlir::Operation* op : forward_) {
    for (mlir::Value result : op->getResults()) {
      if (!saved.contains(result)) continue;
      saved_index_[result] = static_cast<int32_t>(saved_.size());
      saved_.push_back(result);
    }
  }
}

void StageDifferentiator::EmitForward() {
  SegmentBuilder segment(module_builder_, SegmentName(training_ ? "forward" : "evaluate"),
                         training_ ? ir::SegmentKind::Forward : ir::SegmentKind::Evaluate, content_.stage);
  mlir::IRMapping map;
  for (auto [index, argument] : llvm::enumerate(block_.getBody().getArguments())) {
    bool used = llvm::any_of(argument.getUsers(), [&](mlir::Operation* user) { return IsForward(user); });
    if (used) map.map(argument, segment.Argument(block_.getArgRole(index), argument.getType()));
  }
  for (mlir::Operation* op : forward_) segment.builder().clone(*op, map);
  // What is handed on and read again, or handed on twice, is kept in two places: its buffers have lives of their own.
  llvm::DenseSet<mlir::Value> placed;
  auto place = [&](ir::RoleAttr role, mlir::Value value) {
    mlir::Value kept = map.lookup(value);
    if (!placed.insert(value).second) {
      kept = segment.Named(segment.builder().create<ir::CastOp>(value.getLoc(), kept.getType(), kept), "copy");
      kept.getDefiningOp()->setAttr(ir::kLayerAttr, value.getDefiningOp()->getAttr(ir::kLayerAttr));
    }
    segment.SetResult(role, kept);
  };
  for (const Crossing& output : outputs_) place(segment.Role(ir::Role::Output, -1, output.use), output.value);
  for (auto [index, value] : llvm::enumerate(saved_)) {
    place(segment.Role(ir::Role::Saved, -1, static_cast<int32_t>(index)), value);
  }
  if (losses_) segment.SetResult(segment.Role(ir::Role::LocalLosses), map.lookup(losses_));
  segment.Finish();
}

void StageDifferentiator::MapArgument(mlir::Value value, SegmentBuilder& segment, mlir::IRMapping& map) {
  if (map.contains(value)) return;
  if (auto of_block = mlir::dyn_cast<mlir::BlockArgument>(value)) {
    map.map(value, segment.Argument(block_.getArgRole(of_block.getArgNumber()), value.getType()));
    return;
  }
  auto saved = saved_index_.find(value);
  if (saved == saved_index_.end()) return;
  map.map(value, segment.Argument(segment.Role(ir::Role::Saved, -1, saved->second), value.getType()));
}

void StageDifferentiator::Recompute(mlir::Value value, SegmentBuilder& segment, mlir::IRMapping& map,
                                    llvm::DenseSet<mlir::Operation*>& done) {
  for (mlir::Operation* again : RecomputeList(value, done)) {
    done.insert(again);
    for (mlir::Value inner : again->getOperands()) MapArgument(inner, segment, map);
    mlir::Operation* clone = segment.builder().clone(*again, map);
    clone->setAttr(ir::kPartAttr, segment.builder().getStringAttr("recompute"));
  }
}

void StageDifferentiator::SetBackwardResults(SegmentBuilder& segment, const mlir::IRMapping& map, bool inputs,
                                             bool weights) {
  for (auto [role, value] : backward_results_) {
    if (role.getRole() == ir::Role::InputGrad ? inputs : weights) segment.SetResult(role, map.lookup(value));
  }
}

void StageDifferentiator::EmitBackward() {
  SegmentBuilder segment(module_builder_, SegmentName("backward"), ir::SegmentKind::Backward, content_.stage);
  mlir::IRMapping map;
  llvm::DenseSet<mlir::Operation*> done;
  for (mlir::Operation* op : backward_) {
    for (mlir::Value operand : op->getOperands()) {
      Recompute(operand, segment, map, done);
      MapArgument(operand, segment, map);
    }
    segment.builder().clone(*op, map);
  }
  SetBackwardResults(segment, map, true, true);
  segment.Finish();
}

void StageDifferentiator::FindSavedGradients() {
  for (mlir::Operation* op : llvm::reverse(backward_)) {
    const bool labelled = op->getAttrOfType<mlir::StringAttr>(ir::kPartAttr).getValue() == "input";
    const bool needed = llvm::any_of(op->getUsers(), [&](mlir::Operation* user) { return input_half_.contains(user); });
    if (labelled || needed) input_half_.insert(op);
  }
  for (mlir::Operation* op : backward_) {
    if (input_half_.contains(op)) continue;
    for (mlir::Value operand : op->getOperands()) {
      mlir::Operation* maker = operand.getDefiningOp();
      const bool comes_in =
          !maker &&
          block_.getArgRole(mlir::cast<mlir::BlockArgument>(operand).getArgNumber()).getRole() == ir::Role::OutputGrad;
      const bool again = maker && IsForward(maker) && IsRecomputed(operand);
      if (comes_in || again || (maker && input_half_.contains(maker))) saved_gradients_.insert(operand);
    }
  }
}

// Everything that is computed again is computed here, also what only the second half reads.
void StageDifferentiator::EmitBackwardInput() {
  SegmentBuilder segment(module_builder_, SegmentName("backward_input"), ir::SegmentKind::BackwardInput,
                         content_.stage);
  mlir::IRMapping map;
  llvm::DenseSet<mlir::Operation*> done;
  for (mlir::Operation* op : backward_) {
    for (mlir::Value operand : op->getOperands()) {
      Recompute(operand, segment, map, done);
      if (input_half_.contains(op)) MapArgument(operand, segment, map);
    }
    if (input_half_.contains(op)) segment.builder().clone(*op, map);
  }
  SetBackwardResults(segment, map, true, false);
  for (auto [index, value] : llvm::enumerate(saved_gradients_)) {
    MapArgument(value, segment, map);
    mlir::Value kept = map.lookup(value);
    const bool handed_on = llvm::any_of(backward_results_, [&](auto& result) {
      return result.first.getRole() == ir::Role::InputGrad && result.second == value;
    });
    // What comes in or is handed on has a buffer of its own, with a life of its own.
    if (handed_on || mlir::isa<mlir::BlockArgument>(value)) {
      auto copy = segment.Named(segment.builder().create<ir::CastOp>(value.getLoc(), kept.getType(), kept), "copy");
      copy->setAttr(ir::kPartAttr, segment.builder().getStringAttr("input"));
      kept = copy;
    }
    segment.SetResult(segment.Role(ir::Role::SavedGrad, -1, static_cast<int32_t>(index)), kept);
  }
  segment.Finish();
}

void StageDifferentiator::EmitBackwardWeight() {
  SegmentBuilder segment(module_builder_, SegmentName("backward_weight"), ir::SegmentKind::BackwardWeight,
                         content_.stage);
  mlir::IRMapping map;
  for (auto [index, value] : llvm::enumerate(saved_gradients_)) {
    ir::RoleAttr role = segment.Role(ir::Role::SavedGrad, -1, static_cast<int32_t>(index));
    map.map(value, segment.Argument(role, value.getType()));
  }
  for (mlir::Operation* op : backward_) {
    if (input_half_.contains(op)) continue;
    for (mlir::Value operand : op->getOperands()) MapArgument(operand, segment, map);
    segment.builder().clone(*op, map);
  }
  SetBackwardResults(segment, map, false, true);
  segment.Finish();
}

mlir::LogicalResult StageDifferentiator::Run() {
  mlir::LogicalResult result = mlir::success();
  SegmentBuilder both(module_builder_, SegmentName("both"), ir::SegmentKind::Forward, content_.stage);
  BuildForward(both);
  block_ = mlir::cast<ir::SegmentOp>(forward_.front()->getParentOp());
  if (training_) {
    mlir::Operation* last = forward_.back();
    result = BuildBackward(both);
    for (mlir::Operation* op = last->getNextNode(); op; op = op->getNextNode()) backward_.push_back(op);
  }
  if (mlir::succeeded(result)) {
    FindSaved();
    EmitForward();
    llvm::stable_sort(backward_results_, [](const auto& a, const auto& b) {
      auto key = [](ir::RoleAttr role) { return std::make_tuple(role.getRole(), role.getTensor(), role.getUse()); };
      return key(a.first) < key(b.first);
    });
    if (backwards_.whole && !backward_.empty()) EmitBackward();
    if (backwards_.halves && !backward_.empty()) {
      FindSavedGradients();
      if (input_half_.size() == backward_.size()) {
        result = forward_.front()->emitOpError("[build_segments_c18] begins stage ")
                 << content_.stage
                 << ", which has no parameters: its backward cannot be cut in two; give it other layers, or use a "
                    "schedule with whole backwards";
      } else {
        EmitBackwardInput();
        EmitBackwardWeight();
      }
    }
  }
  block_.erase();
  return result;
}

}  // namespace

mlir::LogicalResult BuildForwardAndBackward(mlir::OpBuilder& builder, const StageContent& content,
                                            std::vector<TensorInfo>& tensors, const Training* training,
                                            const Backwards& backwards) {
  return StageDifferentiator(builder, content, tensors, training, backwards).Run();
}

}  // namespace weft
