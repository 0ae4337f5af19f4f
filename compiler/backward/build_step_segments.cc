// Builds the segments of the optimizer step of one rank of the pipeline: grad_norm, scale_gradients, optimizer_step.
//
// With loss scaling (rule P11) there is no scale_gradients: the update undoes the scale and clips.
//
// The gradient of a tensor is in the GRAD buffer of the first use that the rank has; grad_norm adds the gradients of
// the other uses. With ZeRO stage 1, backwards make more of the gradient than the optimizer reads. The optimizer's part
// is then in separate buffers (grad_part), one for each use. The buffers to which backwards add only have to be set to
// zero.
#include "compiler/backward/build_segments.h"

namespace weft {

std::set<std::string> GradientAxes(ir::TensorOp tensor) {
  std::set<std::string> axes;
  if (mlir::DictionaryAttr cuts = tensor.getCutsAttr()) {
    for (mlir::NamedAttribute cut : cuts) axes.insert(cut.getName().str());
  }
  for (mlir::StringAttr axis : tensor.getStateRanges().getAsRange<mlir::StringAttr>()) axes.insert(axis.str());
  return axes;
}

std::set<std::string> NormAxes(std::vector<TensorInfo>& tensors) {
  std::set<std::string> axes;
  for (TensorInfo& tensor : tensors) axes.merge(GradientAxes(tensor.op));
  return axes;
}

namespace {

class StepSegments {
 public:
  StepSegments(mlir::OpBuilder& builder, int32_t rank, const RankContent& content, std::vector<TensorInfo>& tensors,
               const Training& training)
      : builder_(builder),
        rank_(rank),
        content_(content),
        tensors_(tensors),
        training_(training),
        norm_axes_(NormAxes(tensors)) {}

  void GradNorm();
  void ScaleGradients();
  void OptimizerStep();

 private:
  SegmentBuilder Begin(ir::SegmentKind kind) {
    std::string name = ("rank" + llvm::Twine(rank_) + "." + ir::stringifySegmentKind(kind)).str();
    return SegmentBuilder(builder_, name, kind, content_.stages.front(), rank_);
  }
  std::string Name(int32_t tensor) { return tensors_[tensor].op.getSymName().str(); }
  // Role of the buffers to which backwards add gradients.
  ir::Role HeldRole() const { return Exact() ? ir::Role::GradAccumulator : ir::Role::Grad; }
  mlir::RankedTensorType HeldType(int32_t tensor) { return tensors_[tensor].GradType(HeldElement()); }
  // Role of the gradient that each use of a tensor contributes at the end of the iteration.
  ir::Role SummandRole(int32_t tensor) {
    if (!tensors_[tensor].CutsGradientAtEnd()) return HeldRole();
    return Exact() ? ir::Role::GradAccumulatorPart : ir::Role::GradPart;
  }
  mlir::RankedTensorType SummandType(int32_t tensor) { return tensors_[tensor].StateType(HeldElement()); }
  // Role of the gradient that the optimizer reads.
  ir::Role GradRole(int32_t tensor) {
    return tensors_[tensor].CutsGradientAtEnd() ? ir::Role::GradPart : ir::Role::Grad;
  }
  mlir::RankedTensorType GradType(int32_t tensor) { return tensors_[tensor].StateType(training_.grads); }
  bool Exact() const { return training_.accumulation == EXACT; }
  mlir::Type HeldElement() {
    return Exact() ? mlir::Type(ir::Exact192Type::get(builder_.getContext())) : training_.grads;
  }
  // Exact accumulation also sums the norms exactly, so they do not depend on how tensors are cut.
  mlir::RankedTensorType NormsType() {
    mlir::Type element = builder_.getF64Type();
    if (Exact()) element = ir::Exact192Type::get(builder_.getContext());
    return mlir::RankedTensorType::get({static_cast<int64_t>(tensors_.size())}, element);
  }
  mlir::ArrayAttr CountedOnce(int32_t tensor);
  mlir::RankedTensorType Vector(int64_t size) { return mlir::RankedTensorType::get({size}, builder_.getF64Type()); }
  mlir::Value NormTotal(SegmentBuilder& segment);
  mlir::Value FactorWithoutNorm(SegmentBuilder& segment);
  mlir::Value LossScale(SegmentBuilder& segment) {
    return segment.Argument(segment.Role(ir::Role::LossScale), Vector(3));
  }
  void UpdateLossScale(SegmentBuilder& segment, mlir::Value norm);
  void Zero(SegmentBuilder& segment, ir::RoleAttr role, mlir::Type type, llvm::StringRef name) {
    auto zero = segment.builder().create<ir::FillOp>(segment.loc(), type, llvm::APFloat(0.0));
    segment.SetResult(role, segment.Named(zero, name));
  }

  mlir::OpBuilder& builder_;
  const int32_t rank_;
  const RankContent& content_;
  std::vector<TensorInfo>& tensors_;
  const Training& training_;
  const std::set<std::string> norm_axes_;
};

// Mesh axes over which norms are summed but which do not cut this gradient. The ranks along such an axis hold the same
// part, so only one of them counts it.
mlir::ArrayAttr StepSegments::CountedOnce(int32_t tensor) {
  const std::set<std::string> cut = GradientAxes(tensors_[tensor].op);
  std::vector<std::string> copies;
  for (const std::string& axis : norm_axes_) {
    if (cut.count(axis) == 0) copies.push_back(axis);
  }
  llvm::SmallVector<llvm::StringRef> names(copies.begin(), copies.end());
  return builder_.getStrArrayAttr(names);
}

void StepSegments::GradNorm() {
  SegmentBuilder segment = Begin(ir::SegmentKind::GradNorm);
  mlir::OpBuilder& ops = segment.builder();
  mlir::Location loc = segment.loc();
  ir::RoleAttr norms = segment.Role(ir::Role::LocalNorms);
  mlir::RankedTensorType norms_type = NormsType();
  for (const auto& [tensor, uses, computed, writes_norm] : content_.tensors) {
    if (!Exact() && uses.size() == 1 && !writes_norm) continue;
    // Adds up the uses of a tensor, in model order.
    const ir::Role held = SummandRole(tensor);
    mlir::RankedTensorType type = SummandType(tensor);
    mlir::Value sum = segment.Current(segment.Role(held, tensor, uses.front()), type);
    for (size_t i = 1; i < uses.size(); ++i) {
      mlir::Value other = segment.Current(segment.Role(held, tensor, uses[i]), type);
      sum = segment.Named(ops.create<ir::AddOp>(loc, type, sum, other, mlir::Value()), "sum uses of " + Name(tensor));
    }
    ir::RoleAttr grad = segment.Role(GradRole(tensor), tensor, uses.front());
    if (Exact()) {
      sum = segment.Named(ops.create<ir::ExactRoundOp>(loc, GradType(tensor), sum), "round " + Name(tensor));
      for (int32_t use : uses) {
        Zero(segment, segment.Role(HeldRole(), tensor, use), HeldType(tensor), "zero accumulator of " + Name(tensor));
      }
    }
    if (Exact() || uses.size() > 1) segment.SetResult(grad, sum);
    if (!writes_norm) continue;
    auto square = ops.create<ir::SquaredNormOp>(loc, norms_type, sum, segment.Current(norms, norms_type),
                                                ops.getI64IntegerAttr(tensor), CountedOnce(tensor));
    segment.SetResult(norms, segment.Named(square, "norm of " + Name(tensor)));
  }
  segment.Finish();
}

mlir::Value StepSegments::NormTotal(SegmentBuilder& segment) {
  mlir::Value norms = segment.Argument(segment.Role(ir::Role::Norms), NormsType());
  mlir::OpBuilder& ops = segment.builder();
  auto total = ops.create<ir::NormTotalOp>(
      segment.loc(), Vector(2), norms, training_.dynamic() ? LossScale(segment) : mlir::Value(),
      ops.getF64FloatAttr(training_.clip_norm), ops.getF64FloatAttr(training_.dynamic() ? 0 : training_.loss_scale));
  segment.SetResult(segment.Role(ir::Role::Norm), segment.Named(total, "norm"));
  return total;
}

// Computes the factor of the update for programs that take no norm (rule P14). It uses a norm of zero, so that the
// factor only undoes a fixed loss scale.
mlir::Value StepSegments::FactorWithoutNorm(SegmentBuilder& segment) {
  mlir::OpBuilder& ops = segment.builder();
  mlir::Value nothing =
      segment.Named(ops.create<ir::FillOp>(segment.loc(), Vector(1), llvm::APFloat(0.0)), "norm of nothing");
  auto total = ops.create<ir::NormTotalOp>(segment.loc(), Vector(2), nothing, mlir::Value(), ops.getF64FloatAttr(0),
                                           ops.getF64FloatAttr(training_.loss_scale));
  return segment.Named(total, "factor");
}

void StepSegments::UpdateLossScale(SegmentBuilder& segment, mlir::Value norm) {
  mlir::OpBuilder& ops = segment.builder();
  auto update = ops.create<ir::UpdateLossScaleOp>(segment.loc(), Vector(3), norm, LossScale(segment),
                                                  ops.getF64FloatAttr(training_.loss_scale),
                                                  ops.getI32IntegerAttr(training_.growth_interval));
  segment.SetResult(segment.Role(ir::Role::LossScale), segment.Named(update, "loss scale"));
}

void StepSegments::ScaleGradients() {
  SegmentBuilder segment = Begin(ir::SegmentKind::ScaleGradients);
  mlir::Value norm = NormTotal(segment);
  for (const auto& [tensor, uses, computed, writes_norm] : content_.tensors) {
    ir::RoleAttr role = segment.Role(GradRole(tensor), tensor, uses.front());
    mlir::Value grad = segment.Argument(role, GradType(tensor));
    auto scaled = segment.builder().create<ir::ScaleOp>(segment.loc(), grad.getType(), norm, grad);
    segment.SetResult(role, segment.Named(scaled, "clip " + Name(tensor)));
  }
  segment.Finish();
}

void StepSegments::OptimizerStep() {
  SegmentBuilder segment = Begin(ir::SegmentKind::OptimizerStep);
  mlir::OpBuilder& ops = segment.builder();
  mlir::Location loc = segment.loc();
  // With loss scaling the update itself undoes the scale and clips, so gradients of half precision lose nothing on the
  // way.
  mlir::Value norm;
  llvm::SmallVector<mlir::Value> scaling;
  if ((training_.clip_norm == 0 || training_.scaled()) && !training_.asynchronous) norm = NormTotal(segment);
  if (training_.scaled() && training_.asynchronous) norm = FactorWithoutNorm(segment);
  if (training_.scaled()) scaling.push_back(norm);
  if (training_.dynamic()) scaling.push_back(LossScale(segment));
  for (const auto& [tensor, uses, computed, writes_norm] : content_.tensors) {
    TensorInfo& info = tensors_[tensor];
    // One copy of the weights serves both compute and optimizer, except in three cases: the optimizer's weights have
    // another type, the optimizer's weights are only a part of what compute reads, or compute reads several versions
    // (rule P14).
    const bool gathers = info.GathersAtEnd(), casts = info.Type().getElementType() != training_.master;
    const bool has_master = training_.asynchronous || casts || gathers;
    // True if the optimizer writes its part for compute separately, in compute's type. If a part is gathered and
    // already has that type, the gather reads the optimizer's own weights.
    const bool has_copy = has_master && (casts || !gathers);
    ir::RoleAttr param = segment.Role(gathers ? ir::Role::ParamPart : ir::Role::Param, tensor);
    ir::RoleAttr updated = has_master ? segment.Role(ir::Role::Master, tensor) : param;
    ir::RoleAttr moment1 = segment.Role(ir::Role::Moment1, tensor);
    ir::RoleAttr moment2 = segment.Role(ir::Role::Moment2, tensor);
    mlir::Value grad = segment.Argument(segment.Role(GradRole(tensor), tensor, uses.front()), GradType(tensor));
    mlir::Value weight = segment.Argument(updated, info.StateType(training_.master));
    mlir::Type moments = info.StateType(training_.moments);
    mlir::Type param_type = has_copy ? mlir::Type(info.StateType(info.Type().getElementType())) : mlir::Type();
    auto number = [&](double value) { return ops.getF64FloatAttr(value); };
    mlir::FloatAttr decay = info.op.getWeightDecayAttr();
    // A copy in the type of the optimizer's own weights is exact, so it needs no stochastic rounding.
    mlir::IntegerAttr site = ops.getI32IntegerAttr(training_.stochastic_rounding && casts ? tensor + 1 : 0);
    if (training_.adamw) {
      auto step = ops.create<ir::AdamwOp>(loc, weight.getType(), moments, moments, param_type, grad, weight,
                                          segment.Argument(moment1, moments), segment.Argument(moment2, moments),
                                          scaling, number(training_.beta1), number(training_.beta2),
                                          number(training_.epsilon), decay, site);
      segment.Named(step, "adamw " + Name(tensor));
      segment.SetResult(updated, step.getNewWeight());
      segment.SetResult(moment1, step.getNewMoment1());
      segment.SetResult(moment2, step.getNewMoment2());
      if (has_copy) segment.SetResult(param, step.getParam());
    } else {
      bool has_buffer = training_.momentum != 0;
      mlir::Value buffer = has_buffer ? segment.Argument(moment1, moments) : mlir::Value();
      auto step = ops.create<ir::SgdStepOp>(loc, weight.getType(), has_buffer ? moments : mlir::Type(), param_type,
                                            grad, weight, buffer, scaling, number(training_.momentum), decay, site);
      segment.Named(step, "sgd " + Name(tensor));
      segment.SetResult(updated, step.getNewWeight());
      if (has_buffer) segment.SetResult(moment1, step.getNewBuffer());
      if (has_copy) segment.SetResult(param, step.getParam());
    }
  }
  if (training_.dynamic()) UpdateLossScale(segment, norm);
  for (const auto& [tensor, uses, computed, writes_norm] : content_.tensors) {
    for (int32_t use : uses) {
      // Under exact accumulation only the first use has a gradient in the gradients' own type. If this gradient is a
      // part that is made for one iteration, it is not kept. Gradients that do not exist or are not kept need not be
      // set to zero.
      if (Exact() && (use != uses.front() || tensors_[tensor].CutsGradientAtEnd())) continue;
      Zero(segment, segment.Role(ir::Role::Grad, tensor, use), tensors_[tensor].GradType(training_.grads),
           "zero gradient of " + Name(tensor));
    }
  }
  segment.Finish();
}

}  // namespace

void BuildStepSegments(mlir::OpBuilder& builder, int32_t rank, const RankContent& content,
                       std::vector<TensorInfo>& tensors, const Training& training) {
  StepSegments step(builder, rank, content, tensors, training);
  if (!training.asynchronous) step.GradNorm();
  if (training.clip_norm > 0 && !training.scaled()) step.ScaleGradients();
  step.OptimizerStep();
}

}  // namespace weft
