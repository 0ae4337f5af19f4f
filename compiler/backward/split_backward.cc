// Finds which forward values the backward of a stage reads, and cuts the block that holds forward and backward into
// segments.
#include <cstdint>
#include <utility>

#include "compiler/backward/build_backward.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft {

namespace {

// The input half computes the gradients of a norm's weights if the norm's input has at least this many bytes.
constexpr int64_t kLeastNormBytes = int64_t{8} << 20;

}  // namespace

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
  // A value that is both an output and saved, or that is several outputs, is kept in several places, because the
  // buffers of these places have separate lifetimes.
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
    const bool gather = again->getNumResults() > 0 && ir::IsGathered(again->getResult(0));
    clone->setAttr(ir::kPartAttr, segment.builder().getStringAttr(gather ? "input" : "recompute"));
  }
}

void StageDifferentiator::RecomputeLayer(size_t first, SegmentBuilder& segment, mlir::IRMapping& map,
                                         llvm::DenseSet<mlir::Operation*>& done) {
  // Ops that only pass values on may belong to no layer.
  auto layer_of = [&](size_t i) { return backward_[i]->getAttr(ir::kLayerAttr); };
  if (first > 0 && layer_of(first - 1) == layer_of(first)) return;
  std::vector<mlir::Value> wanted;
  bool sums = false;
  for (size_t i = first; i < backward_.size() && layer_of(i) == layer_of(first); ++i) {
    for (mlir::Value operand : backward_[i]->getOperands()) {
      if (ir::IsGathered(operand)) continue;
      wanted.push_back(operand);
      for (mlir::Operation* again : RecomputeList(operand, done)) {
        auto purpose = again->getAttrOfType<ir::PurposeAttr>("purpose");
        sums |= purpose && purpose.getValue() == ir::Purpose::Tensor;
      }
    }
  }
  if (!sums) return;
  for (mlir::Value value : wanted) Recompute(value, segment, map, done);
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
  for (auto [index, op] : llvm::enumerate(backward_)) {
    RecomputeLayer(index, segment, map, done);
    for (mlir::Value operand : op->getOperands()) {
      Recompute(operand, segment, map, done);
      MapArgument(operand, segment, map);
    }
    segment.builder().clone(*op, map);
  }
  SetBackwardResults(segment, map, true, true);
  segment.Finish();
}

// The gradient of a norm's weight is one row, but what it is computed from has a row for every token. So the input half
// computes the row, and the weight half adds it to the gradient: only the weight half may do that (rule P9). The row is
// kept in the type in which the kernel computes, so that the sum has the same bits as the kernel's own. Adding a row is
// one more kernel, which costs microseconds, so small norms stay as they are.
void StageDifferentiator::MoveNormGradients() {
  std::vector<mlir::Operation*> moved;
  for (mlir::Operation* op : backward_) {
    if (!mlir::isa<ir::LayerNormBackwardWeightOp, ir::RmsNormBackwardWeightOp, ir::GroupNormBackwardWeightOp>(op) ||
        ir::BytesOfTensor(mlir::cast<mlir::RankedTensorType>(op->getOperand(1).getType())) < kLeastNormBytes) {
      moved.push_back(op);
      continue;
    }
    auto kernel = mlir::cast<ir::KernelInterface>(op);
    if (!kernel.accumulates()) {
      input_half_.insert(op);
      moved.push_back(op);
      continue;
    }
    mlir::OpBuilder builder(op);
    mlir::Operation* rows = builder.clone(*op);
    llvm::TypeSwitch<mlir::Operation*>(rows)
        .Case([](ir::RmsNormBackwardWeightOp norm) { norm.getInitMutable().clear(); })
        .Case<ir::LayerNormBackwardWeightOp, ir::GroupNormBackwardWeightOp>([](auto norm) {
          norm.getInitGammaMutable().clear();
          norm.getInitBetaMutable().clear();
        });
    const bool in_double = llvm::any_of(op->getOperandTypes(), [](mlir::Type type) {
      return mlir::cast<mlir::RankedTensorType>(type).getElementType().isF64();
    });
    input_half_.insert(rows);
    moved.push_back(rows);
    for (auto [result, row] : llvm::zip(op->getResults(), rows->getResults())) {
      auto type = mlir::cast<mlir::RankedTensorType>(result.getType());
      row.setType(type.clone(in_double ? builder.getF64Type() : builder.getF32Type()));
      mlir::Value init = op->getOperand(kernel.getTiedOperand(result.getResultNumber()));
      auto add = builder.create<ir::AddOp>(op->getLoc(), type, init, row, mlir::Value());
      const std::string name = op->getAttrOfType<mlir::StringAttr>(ir::kNameAttr).str() + ".add";
      add->setAttr(ir::kNameAttr, builder.getStringAttr(name));
      add->setAttr(ir::kLayerAttr, op->getAttr(ir::kLayerAttr));
      add->setAttr(ir::kPartAttr, builder.getStringAttr("weight"));
      moved.push_back(add);
      for (auto& [role, value] : backward_results_) {
        if (value == result) value = add.getResult();
      }
    }
  }
  backward_ = std::move(moved);
}

void StageDifferentiator::FindSavedGradients() {
  if (backwards_.norms_in_input_half) MoveNormGradients();
  for (mlir::Operation* op : llvm::reverse(backward_)) {
    const bool again = op->getNumResults() > 0 && GathersAgain(op->getResult(0));
    const bool labeled = !again && op->getAttrOfType<mlir::StringAttr>(ir::kPartAttr).getValue() == "input";
    const bool needed = llvm::any_of(op->getUsers(), [&](mlir::Operation* user) { return input_half_.contains(user); });
    if (labeled || needed) input_half_.insert(op);
  }
  for (mlir::Operation* op : backward_) {
    if (input_half_.contains(op)) continue;
    for (mlir::Value operand : op->getOperands()) {
      for (mlir::Value source : SourcesOf(operand)) {
        mlir::Operation* maker = source.getDefiningOp();
        const bool comes_in =
            !maker &&
            block_.getArgRole(mlir::cast<mlir::BlockArgument>(source).getArgNumber()).getRole() == ir::Role::OutputGrad;
        const bool again = maker && IsForward(maker) && IsRecomputed(source);
        if (comes_in || again || (maker && input_half_.contains(maker))) saved_gradients_.insert(source);
      }
    }
  }
}

// Recomputes all values here, including those that only the second half of the backward reads, except what the second
// half gathers for itself.
void StageDifferentiator::EmitBackwardInput() {
  SegmentBuilder segment(module_builder_, SegmentName("backward_input"), ir::SegmentKind::BackwardInput,
                         content_.stage);
  mlir::IRMapping map;
  llvm::DenseSet<mlir::Operation*> done;
  for (auto [index, op] : llvm::enumerate(backward_)) {
    RecomputeLayer(index, segment, map, done);
    const bool here = input_half_.contains(op);
    for (mlir::Value operand : op->getOperands()) {
      for (mlir::Value source : here ? llvm::SmallVector<mlir::Value>{operand} : SourcesOf(operand)) {
        Recompute(source, segment, map, done);
      }
      if (here) MapArgument(operand, segment, map);
    }
    if (here) segment.builder().clone(*op, map);
  }
  SetBackwardResults(segment, map, true, false);
  for (auto [index, value] : llvm::enumerate(saved_gradients_)) {
    MapArgument(value, segment, map);
    mlir::Value kept = map.lookup(value);
    const bool handed_on = llvm::any_of(backward_results_, [&](auto& result) {
      return result.first.getRole() == ir::Role::InputGrad && result.second == value;
    });
    // An incoming gradient, and a gradient that the stage hands on, already have a buffer with another lifetime. The
    // second half of the backward gets a copy.
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
    for (mlir::Value operand : op->getOperands()) {
      if (GathersAgain(operand) && !map.contains(operand)) {
        for (mlir::Value source : SourcesOf(operand)) MapArgument(source, segment, map);
        mlir::Operation* gather = segment.builder().clone(*operand.getDefiningOp(), map);
        gather->setAttr(ir::kPartAttr, segment.builder().getStringAttr("weight"));
      }
      MapArgument(operand, segment, map);
    }
    segment.builder().clone(*op, map);
  }
  SetBackwardResults(segment, map, false, true);
  segment.Finish();
}

}  // namespace weft
