// Builds the forward of a stage and then, in the same block, its backward.
#include "compiler/backward/build_backward.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace weft {

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

mlir::Value StageDifferentiator::AddTogether(mlir::Value a, mlir::Value b, const LayerSum& sum, SegmentBuilder& both) {
  mlir::OpBuilder& builder = both.builder();
  auto add = builder.create<ir::AddOp>(sum.reader->getLoc(), a.getType(), a, b, mlir::Value());
  add->setAttr(ir::kNameAttr, builder.getStringAttr(sum.name + (sum.weight ? ".dw_sum" : ".dx_sum")));
  add->setAttr(ir::kLayerAttr, sum.reader->getAttr(ir::kLayerAttr));
  add->setAttr(ir::kPartAttr, builder.getStringAttr(sum.weight ? "weight" : "input"));
  return add;
}

void StageDifferentiator::AddGradient(mlir::Value value, mlir::Value gradient, mlir::Operation* reader,
                                      llvm::StringRef name, SegmentBuilder& both) {
  LayerSum& sum = layer_sums_[value];
  if (sum.value && LayerOf(sum.reader) != LayerOf(reader)) GradientOf(value, both);
  LayerSum& own = layer_sums_[value];
  own.reader = reader;
  own.name = name.str();
  own.weight = ir::IsGatheredWeight(value);
  own.value = own.value ? AddTogether(own.value, gradient, own, both) : gradient;
}

mlir::Value StageDifferentiator::GradientOf(mlir::Value value, SegmentBuilder& both) {
  mlir::Value& total = gradients_[value];
  auto found = layer_sums_.find(value);
  if (found == layer_sums_.end()) return total;
  if (found->second.value) {
    total = total ? AddTogether(total, found->second.value, found->second, both) : found->second.value;
  }
  layer_sums_.erase(found);
  return total;
}

void StageDifferentiator::ScaleLoss(mlir::Operation* before, SegmentBuilder& both) {
  mlir::Builder builder(before->getContext());
  auto scale = [&](auto made) {
    if (training_->dynamic()) {
      auto type = mlir::RankedTensorType::get({3}, builder.getF64Type());
      made.getScaleMutable().assign(both.Argument(both.Role(ir::Role::LossScale), type));
    } else {
      made.setLossWeight(llvm::APFloat(made.getLossWeight().convertToDouble() * training_->loss_scale));
    }
  };
  for (mlir::Operation* made = before->getNextNode(); made; made = made->getNextNode()) {
    if (auto tokens = mlir::dyn_cast<ir::CrossEntropyBackwardOp>(made)) scale(tokens);
    if (auto images = mlir::dyn_cast<ir::SquaredErrorBackwardOp>(made)) scale(images);
  }
}

mlir::LogicalResult StageDifferentiator::Differentiate(mlir::Operation* op, SegmentBuilder& both) {
  mlir::OpBuilder& builder = both.builder();
  llvm::SmallVector<mlir::Value> result_gradients;
  bool reached = ir::IsLoss(op);
  for (mlir::Value result : op->getResults()) {
    result_gradients.push_back(GradientOf(result, both));
    reached |= static_cast<bool>(result_gradients.back());
  }
  bool wanted = llvm::any_of(op->getOperands(), [&](mlir::Value v) { return needs_gradient_.contains(v); });
  if (!reached || !wanted) return mlir::success();
  auto differentiable = mlir::dyn_cast<ir::DifferentiableInterface>(op);
  if (!differentiable) {
    return op->emitOpError("[build_segments_c15] has no derivative, but a parameter's gradient depends on it");
  }
  const bool gathers = op->getNumResults() > 0 && ir::IsGatheredWeight(op->getResult(0));
  llvm::SmallVector<ir::GradientRequest> requests;
  for (mlir::OpOperand& operand : op->getOpOperands()) {
    ir::GradientRequest request;
    auto parameter = parameters_.find(&operand);
    if (parameter != parameters_.end()) {
      auto [tensor, use] = parameter->second;
      request.type = tensors_[tensor].GradType(training_->grads);
      if (training_->accumulation == IN_ORDER) {
        request.init = both.Argument(both.Role(ir::Role::Grad, tensor, use), request.type);
      } else if (gathers) {
        // With exact accumulation, the collective that sums over the group adds every rank's contribution to the
        // accumulator one by one (rule P10).
        request.type = tensors_[tensor].GradType(ir::Exact192Type::get(builder.getContext()));
        request.init = both.Argument(both.Role(ir::Role::GradAccumulator, tensor, use), request.type);
      }
    } else if (ir::IsGatheredWeight(operand.get())) {
      // This gradient need not have the weight's type: it is summed over ranks. If a later collective sums it further
      // on its way to an accumulator, it is already an exact sum.
      const bool exact = gathers && training_->accumulation != IN_ORDER;
      request.type = mlir::cast<mlir::RankedTensorType>(operand.get().getType())
                         .clone(exact ? ir::Exact192Type::get(builder.getContext()) : training_->grads);
    } else if (needs_gradient_.contains(operand.get())) {
      request.type = mlir::cast<mlir::RankedTensorType>(operand.get().getType());
    }
    requests.push_back(request);
  }
  mlir::Block* block = builder.getInsertionBlock();
  mlir::Operation* before = &block->back();
  llvm::SmallVector<mlir::Value> gradients = differentiable.buildBackward(builder, result_gradients, requests);

  if (ir::IsLoss(op) && training_->scaled()) ScaleLoss(before, both);
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
      const bool weight = ir::IsGatheredWeight(operand.get());
      const llvm::StringRef part = weight ? "weight" : "input";
      if (is_new(gradient.getDefiningOp())) label(gradient.getDefiningOp(), part, weight ? ".dw" : ".dx");
      AddGradient(operand.get(), gradient, op, base, both);
      continue;
    }
    if (is_new(gradient.getDefiningOp())) {
      label(gradient.getDefiningOp(), "weight",
            gathers                                                   ? ".scatter"
            : mlir::isa<ir::BiasGradientOp>(gradient.getDefiningOp()) ? ".db"
                                                                      : ".dw");
    }
    auto [tensor, use] = parameter->second;
    if (gathers && training_->accumulation != IN_ORDER) {
      backward_results_.push_back({both.Role(ir::Role::GradAccumulator, tensor, use), gradient});
      continue;
    }
    if (training_->accumulation == IN_ORDER) {
      backward_results_.push_back({both.Role(ir::Role::Grad, tensor, use), gradient});
      continue;
    }
    ir::RoleAttr role = both.Role(ir::Role::GradAccumulator, tensor, use);
    auto type = tensors_[tensor].GradType(ir::Exact192Type::get(builder.getContext()));
    auto sum = builder.create<ir::ExactAccumulateOp>(op->getLoc(), type, gradient, both.Argument(role, type));
    label(sum, "weight", (".exact" + llvm::Twine(tensor)).str());
    backward_results_.push_back({role, sum});
  }
  // Labels the remaining ops: "weight" if only weight ops read their results, else "input".
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
  if (outputs_.empty() && (!losses_ || !ir::IsLoss(losses_.getDefiningOp()))) {
    return forward_.back()->emitOpError(
        "[build_segments_c16] the graph must yield the losses of a cross_entropy or squared_error op");
  }
  // Adds the gradients from later stages, the furthest stage first. Within a stage, too, the gradient of the last
  // reader comes first.
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
    mlir::Value gradient = GradientOf(input.value, both);
    if (!gradient) {
      return forward_.front()->emitOpError("[build_segments_c17] the loss does not depend on what this stage receives");
    }
    // Copies a gradient that passes through unchanged, or that is the gradient of two inputs, because each gradient has
    // a buffer of its own.
    if (mlir::isa<mlir::BlockArgument>(gradient) || !handed_on.insert(gradient).second) {
      gradient = both.Named(both.builder().create<ir::CastOp>(both.loc(), gradient.getType(), gradient), "copy");
      gradient.getDefiningOp()->setAttr(ir::kPartAttr, both.builder().getStringAttr("input"));
    }
    backward_results_.push_back({both.Role(ir::Role::InputGrad, -1, input.use), gradient});
  }
  return mlir::success();
}

void StageDifferentiator::FoldFanOuts() {
  std::vector<mlir::Operation*> kept;
  for (mlir::Operation* op : forward_) {
    if (!mlir::isa<ir::FanOutOp, ir::CutGradientsOp>(op)) {
      kept.push_back(op);
      continue;
    }
    for (auto [result, operand] : llvm::zip(op->getResults(), op->getOperands())) {
      for (Crossing& output : outputs_) {
        if (output.value == result) output.value = operand;
      }
      result.replaceAllUsesWith(operand);
    }
    position_.erase(op);
    op->erase();
  }
  forward_ = std::move(kept);
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
  both.WriteArgumentRoles();
  FoldFanOuts();
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
      EmitBackwardInput();
      EmitBackwardWeight();
    }
  }
  block_.erase();
  return result;
}

mlir::LogicalResult BuildForwardAndBackward(mlir::OpBuilder& builder, const StageContent& content,
                                            std::vector<TensorInfo>& tensors, const Training* training,
                                            const Backwards& backwards) {
  return StageDifferentiator(builder, content, tensors, training, backwards).Run();
}

}  // namespace weft
