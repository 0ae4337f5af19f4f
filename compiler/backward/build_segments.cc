// The pass build-segments: finds what each stage holds and what crosses between stages.
#include "compiler/backward/build_segments.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "compiler/backward/recompute_groups.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace weft {

#define GEN_PASS_DEF_BUILDSEGMENTS
#include "compiler/passes/passes.h.inc"

namespace {

int64_t IntegerOf(mlir::Operation* op, llvm::StringRef name) {
  return op->getAttrOfType<mlir::IntegerAttr>(name).getInt();
}

// Name of a value that is the result of an op.
std::string PlainNameOf(mlir::Value value) {
  mlir::Operation* op = value.getDefiningOp();
  auto name = op->getAttrOfType<mlir::StringAttr>(ir::kNameAttr);
  return name ? name.str() : op->getName().getStringRef().str();
}

std::string NameOf(mlir::Value value) { return "'" + PlainNameOf(value) + "'"; }

struct BuildSegmentsPass : impl::BuildSegmentsBase<BuildSegmentsPass> {
  using BuildSegmentsBase::BuildSegmentsBase;

  void runOnOperation() override;

 private:
  mlir::LogicalResult CollectTensors();
  mlir::LogicalResult CollectStages(ir::GraphOp graph);
  mlir::LogicalResult FindBoundaries(ir::GraphOp graph);
  mlir::LogicalResult CheckCrossing(ir::GraphOp graph, mlir::Value value, int32_t from, int32_t to);
  mlir::LogicalResult PlaceStages(ir::GraphOp graph);
  RecomputeChoice Recomputed() {
    return {recompute.getValue(), {recomputeLayers.begin(), recomputeLayers.end()}, recomputeEvery, recomputeInterval};
  }

  std::vector<TensorInfo> tensors_;
  std::vector<StageContent> stages_;
  Holdings holdings_;
};

mlir::LogicalResult BuildSegmentsPass::CollectTensors() {
  tensors_.clear();
  for (auto tensor : getOperation().getOps<ir::TensorOp>()) {
    if (tensor.getIndex() != tensors_.size()) {
      return tensor.emitOpError() << "[build_segments_c1] tensors must be declared in the order of their indices; "
                                  << "expected index " << tensors_.size() << ", got " << tensor.getIndex();
    }
    tensors_.push_back({tensor});
  }
  return mlir::success();
}

mlir::LogicalResult BuildSegmentsPass::CollectStages(ir::GraphOp graph) {
  stages_.clear();
  std::vector<int32_t> uses(tensors_.size(), 0);
  for (mlir::Operation& op : graph.getBody().front().without_terminator()) {
    auto stage = op.getAttrOfType<mlir::IntegerAttr>(ir::kStageAttr);
    auto layer = op.getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
    int64_t last = static_cast<int64_t>(stages_.size()) - 1;
    if (!stage || !layer || stage.getInt() < std::max<int64_t>(last, 0) || stage.getInt() > last + 1) {
      return op.emitOpError(
          "[build_segments_c2] needs a `layer`, and a `stage` equal to the stage of the op before it or one higher; "
          "run weft-partition-stages first");
    }
    if (stage.getInt() > last) {
      stages_.emplace_back();
      stages_.back().stage = static_cast<int32_t>(stage.getInt());
    }
    StageContent& content = stages_.back();
    auto parameter = mlir::dyn_cast<ir::ParameterOp>(op);
    if (!parameter) {
      content.ops.push_back(&op);
      continue;
    }
    int32_t tensor = static_cast<int32_t>(parameter.getTensor());
    if (tensor >= static_cast<int64_t>(tensors_.size()) || tensors_[tensor].Type() != parameter.getType()) {
      return parameter.emitOpError() << "[build_segments_c3] needs a weft.tensor with index " << tensor << " and type "
                                     << parameter.getType();
    }
    if (static_cast<int32_t>(parameter.getUse()) != uses[tensor]++) {
      return parameter.emitOpError("[build_segments_c4] uses of a tensor must be numbered 0, 1, ... in model order");
    }
    if (!parameter->hasOneUse() || IntegerOf(*parameter->user_begin(), ir::kStageAttr) != stage.getInt()) {
      return parameter.emitOpError(
          "[build_segments_c5] must have exactly one reader, in its own stage; add one weft.parameter for each reader");
    }
    content.uses[tensor].push_back(static_cast<int32_t>(parameter.getUse()));
  }
  for (auto [index, tensor] : llvm::enumerate(tensors_)) {
    if (uses[index] != static_cast<int32_t>(tensor.op.getUses())) {
      return tensor.op.emitOpError() << "[build_segments_c6] declares " << tensor.op.getUses()
                                     << " uses, the graph has " << uses[index];
    }
  }
  if (stages_.empty()) return graph.emitOpError("[build_segments_c8] has no op");
  return mlir::success();
}

mlir::LogicalResult BuildSegmentsPass::CheckCrossing(ir::GraphOp graph, mlir::Value value, int32_t from, int32_t to) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  if (type.getRank() == 2 && mlir::isa<mlir::FloatType>(type.getElementType())) return mlir::success();
  mlir::InFlightDiagnostic error = graph.emitOpError() << "[build_segments_c10] a value that crosses from stage "
                                                       << from << " to stage " << to << " must be a matrix of floats";
  error.attachNote(value.getLoc()) << NameOf(value) << " of type " << type << " crosses";
  return error;
}

// Finds the values that cross between stages. One value of the chain crosses from each stage to the next: the last
// value that the stage computes among those that the next stage reads. All other values of a stage that later stages
// read are skip connections, one for each value and reading stage.
mlir::LogicalResult BuildSegmentsPass::FindBoundaries(ir::GraphOp graph) {
  const int32_t last = static_cast<int32_t>(stages_.size()) - 1;
  // For each pair (from stage, to stage): the values that cross, in order of definition.
  std::map<std::pair<int32_t, int32_t>, llvm::SmallVector<mlir::Value>> crossing;
  for (int32_t k = 0; k < last; ++k) crossing[{k, k + 1}];
  for (StageContent& content : stages_) {
    for (mlir::Operation* op : content.ops) {
      for (mlir::Value result : op->getResults()) {
        std::set<int32_t> readers;
        for (mlir::Operation* user : result.getUsers()) {
          readers.insert(mlir::isa<ir::YieldOp>(user) ? last : static_cast<int32_t>(IntegerOf(user, ir::kStageAttr)));
        }
        readers.erase(content.stage);
        for (int32_t reader : readers) crossing[{content.stage, reader}].push_back(result);
      }
    }
  }
  llvm::SmallVector<mlir::Attribute> names;
  // The chain comes first in each stage's list. Skip connections follow, in the order of their stages.
  for (bool chain : {true, false}) {
    for (auto& [stages, values] : crossing) {
      const auto [from, to] = stages;
      const bool next = to == from + 1;
      if (chain && !next) continue;
      if (chain && values.empty()) {
        return graph.emitOpError() << "[build_segments_c9] no value crosses from stage " << from << " to stage " << to
                                   << "; cut the layers elsewhere";
      }
      llvm::ArrayRef<mlir::Value> crossed = values;
      crossed = chain ? crossed.take_back() : next ? crossed.drop_back() : crossed;
      for (mlir::Value value : crossed) {
        if (mlir::failed(CheckCrossing(graph, value, from, to))) return mlir::failure();
        if (!chain) names.push_back(mlir::StringAttr::get(&getContext(), PlainNameOf(value)));
        const int32_t use = chain ? 0 : static_cast<int32_t>(names.size());
        stages_[from].outputs.push_back({value, use});
        stages_[to].inputs.push_back({value, use});
      }
    }
  }
  if (!names.empty()) getOperation()->setAttr(ir::kSkipsAttr, mlir::ArrayAttr::get(&getContext(), names));
  return mlir::success();
}

mlir::LogicalResult BuildSegmentsPass::PlaceStages(ir::GraphOp graph) {
  const size_t stages = stages_.size();
  std::vector<std::vector<int>> lanes;
  for (size_t i = 0; i < placement.size(); ++i) {
    if (i % stages == 0) lanes.emplace_back();
    lanes.back().push_back(placement[i]);
  }
  if (lanes.empty()) lanes = OneStagePerRank(static_cast<int>(stages));
  std::vector<StageUses> uses;
  for (const StageContent& content : stages_) uses.push_back(content.uses);
  absl::StatusOr<Holdings> holdings = HoldingsOf(lanes, uses);
  if (!holdings.ok()) {
    const absl::string_view message = holdings.status().message();
    return graph.emitOpError() << "[build_segments_c7] " << llvm::StringRef(message.data(), message.size());
  }
  holdings_ = *std::move(holdings);
  return mlir::success();
}

void BuildSegmentsPass::runOnOperation() {
  mlir::ModuleOp module = getOperation();
  auto graphs = llvm::to_vector(module.getOps<ir::GraphOp>());
  if (graphs.size() != 1) {
    module.emitOpError() << "[build_segments_c14] must have one weft.graph, but has " << graphs.size();
    return signalPassFailure();
  }
  ir::GraphOp graph = graphs.front();
  std::optional<Training> training;
  if (!evaluate) {
    mlir::FailureOr<Training> read = GetTraining(module);
    if (mlir::failed(read)) return signalPassFailure();
    training = *read;
  }
  if (mlir::failed(CollectTensors()) || mlir::failed(CollectStages(graph)) || mlir::failed(FindBoundaries(graph)) ||
      (!evaluate &&
       (mlir::failed(ChooseRecompute(graph, Recomputed(), stages_)) || mlir::failed(PlaceStages(graph))))) {
    return signalPassFailure();
  }
  mlir::OpBuilder builder(module.getContext());
  for (const StageContent& content : stages_) {
    builder.setInsertionPointToEnd(module.getBody());
    if (mlir::failed(BuildForwardAndBackward(builder, content, tensors_, training ? &*training : nullptr,
                                             {.whole = wholeBackward,
                                              .halves = splitBackward,
                                              .norms_in_input_half = normsInInputHalf,
                                              .gather_again = gatherAgain}))) {
      return signalPassFailure();
    }
  }
  for (size_t rank = 0; rank < holdings_.ranks.size(); ++rank) {
    // A rank without a stage has no optimizer step.
    if (holdings_.ranks[rank].stages.empty()) continue;
    BuildStepSegments(builder, static_cast<int32_t>(rank), holdings_.ranks[rank], tensors_, *training);
  }
  graph.erase();
}

}  // namespace

SegmentBuilder::SegmentBuilder(mlir::OpBuilder& module_builder, llvm::StringRef name, ir::SegmentKind kind,
                               int32_t stage, int32_t rank)
    : segment_(module_builder.create<ir::SegmentOp>(module_builder.getUnknownLoc(), name, kind, stage)),
      builder_(mlir::OpBuilder::atBlockEnd(&segment_.getBody().front())) {
  if (rank >= 0) segment_.setRankAttr(builder_.getI32IntegerAttr(rank));
}

mlir::Value SegmentBuilder::Argument(ir::RoleAttr role, mlir::Type type) {
  mlir::Value& argument = arguments_[role];
  if (!argument) {
    argument_roles_.push_back(role);
    argument = segment_.getBody().addArgument(type, segment_.getLoc());
  }
  return argument;
}

ir::RoleAttr SegmentBuilder::Role(ir::Role role, int32_t tensor, int32_t use) {
  return ir::RoleAttr::get(builder_.getContext(), role, tensor, use);
}

void SegmentBuilder::SetResult(ir::RoleAttr role, mlir::Value value) {
  const auto [index, added] = result_index_.try_emplace(role, results_.size());
  if (!added) {
    results_[index->second] = value;
    return;
  }
  result_roles_.push_back(role);
  results_.push_back(value);
}

mlir::Value SegmentBuilder::Current(ir::RoleAttr role, mlir::Type type) {
  if (auto known = result_index_.find(role); known != result_index_.end()) return results_[known->second];
  return Argument(role, type);
}

void SegmentBuilder::WriteArgumentRoles() { segment_.setArgRolesAttr(builder_.getArrayAttr(argument_roles_)); }

void SegmentBuilder::SortArguments() {
  mlir::Block& block = segment_.getBody().front();
  llvm::SmallVector<unsigned> order = llvm::to_vector(llvm::seq(0u, block.getNumArguments()));
  auto key = [&](unsigned index) {
    auto role = mlir::cast<ir::RoleAttr>(argument_roles_[index]);
    return std::make_tuple(role.getRole(), role.getTensor(), role.getUse());
  };
  llvm::sort(order, [&](unsigned a, unsigned b) { return key(a) < key(b); });
  llvm::SmallVector<mlir::Attribute> roles;
  for (unsigned index : order) {
    mlir::BlockArgument old = block.getArgument(index);
    old.replaceAllUsesWith(block.addArgument(old.getType(), old.getLoc()));
    roles.push_back(argument_roles_[index]);
  }
  block.eraseArguments(0, order.size());
  argument_roles_ = std::move(roles);
  WriteArgumentRoles();
}

ir::SegmentOp SegmentBuilder::Finish() {
  if (segment_.getBody().front().empty()) {
    segment_.erase();
    return {};
  }
  builder_.create<ir::ReturnOp>(segment_.getLoc(), results_);
  segment_.setResultRolesAttr(builder_.getArrayAttr(result_roles_));
  SortArguments();
  return segment_;
}

}  // namespace weft
