// Exports the segments of a module as messages. Finds the stage or rank of each segment, and what the segments of one
// stage share.
#include "compiler/export/export_segments.h"

#include <string>
#include <tuple>
#include <utility>

#include "compiler/export/export_segment.h"
#include "compiler/segments/diagnostic_status.h"
#include "compiler/segments/saved_for_input.h"
#include "compiler/segments/segment_set.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/STLExtras.h"

namespace weft {

namespace {

constexpr int64_t kMaxRanks = int64_t{1} << 20;

// Returns the field in which a stage keeps the index of a segment of this kind.
int* IndexOf(StageIndex& stage, ir::SegmentKind kind) {
  switch (kind) {
    case ir::SegmentKind::Forward:
    case ir::SegmentKind::Evaluate:
      return &stage.forward;
    case ir::SegmentKind::Backward:
      return &stage.backward;
    case ir::SegmentKind::BackwardInput:
      return &stage.backward_input;
    case ir::SegmentKind::BackwardWeight:
      return &stage.backward_weight;
    default:
      return nullptr;
  }
}

int* IndexOf(RankIndex& rank, ir::SegmentKind kind) {
  switch (kind) {
    case ir::SegmentKind::GradNorm:
      return &rank.grad_norm;
    case ir::SegmentKind::ScaleGradients:
      return &rank.scale_gradients;
    case ir::SegmentKind::OptimizerStep:
      return &rank.optimizer_step;
    default:
      return nullptr;
  }
}

// Returns the field in which `set` keeps the index of the segment. If the segment belongs to the stage or rank after
// the last one in `set`, adds that stage or rank.
mlir::FailureOr<int*> PlaceOf(ir::SegmentOp segment, SegmentSet* set) {
  if (ir::IsOfRank(segment.getKind())) {
    const int64_t rank = RankOf(segment);
    if (rank >= kMaxRanks) {
      segment.emitOpError() << "[export_segments_c12] is of rank " << rank << "; allowed: 0 to " << kMaxRanks - 1;
      return mlir::failure();
    }
    // A rank without parameters has no segments.
    if (rank >= static_cast<int64_t>(set->ranks.size())) set->ranks.resize(rank + 1);
    return IndexOf(set->ranks[rank], segment.getKind());
  }
  if (segment.getStage() > set->stages.size()) {
    segment.emitOpError() << "[export_segments_c9] is of stage " << segment.getStage() << ", but stage "
                          << set->stages.size() << " has no segment";
    return mlir::failure();
  }
  if (segment.getStage() == set->stages.size()) set->stages.emplace_back();
  int* index = IndexOf(set->stages.back(), segment.getKind());
  if (!index) {
    segment.emitOpError() << "[export_segments_c13] is of kind " << ir::stringifySegmentKind(segment.getKind())
                          << ", which exists only after export";
    return mlir::failure();
  }
  return index;
}

// Finds the skip connections of a module: names from its attribute, the rest from the operands of forwards.
void FindSkips(mlir::ModuleOp module, SegmentSet* set) {
  auto names = module->getAttrOfType<mlir::ArrayAttr>(ir::kSkipsAttr);
  if (!names) return;
  set->skips.resize(names.size());
  for (auto [index, name] : llvm::enumerate(names)) {
    if (auto text = mlir::dyn_cast<mlir::StringAttr>(name)) set->skips[index].name = text.str();
  }
  for (const StageSegment& segment : set->segments) {
    if (segment.kind != ir::SegmentKind::Forward && segment.kind != ir::SegmentKind::Evaluate) continue;
    for (const SegmentOperand& operand : segment.operands) {
      if (operand.use < 1 || operand.use > static_cast<int64_t>(names.size())) continue;
      SkipTensor& skip = set->skips[operand.use - 1];
      if (operand.role == ir::Role::Output) {
        skip.from_stage = segment.stage;
        skip.dtype = operand.dtype;
        skip.shape = operand.shape;
      } else if (operand.role == ir::Role::Input) {
        skip.to_stage = segment.stage;
      }
    }
  }
}

}  // namespace

mlir::LogicalResult ExportSegmentOps(mlir::ModuleOp module, SegmentSet* set) {
  auto declared = module.getOps<ir::TensorOp>();
  const std::vector<ir::TensorOp> tensors(declared.begin(), declared.end());
  auto segments = llvm::to_vector(module.getOps<ir::SegmentOp>());
  auto key = [](ir::SegmentOp segment) {
    const bool of_rank = ir::IsOfRank(segment.getKind());
    return std::make_tuple(of_rank, of_rank ? RankOf(segment) : static_cast<int64_t>(segment.getStage()),
                           segment.getKind());
  };
  llvm::stable_sort(segments, [&](ir::SegmentOp a, ir::SegmentOp b) { return key(a) < key(b); });
  Layouts layouts;
  std::pair<bool, int64_t> last(false, -1);
  for (ir::SegmentOp segment : segments) {
    mlir::FailureOr<int*> index = PlaceOf(segment, set);
    if (mlir::failed(index)) return mlir::failure();
    if (**index >= 0) {
      return segment.emitOpError("[export_segments_c10] its stage or rank has another segment of this kind");
    }
    const bool of_rank = ir::IsOfRank(segment.getKind());
    const auto place = std::make_pair(of_rank, of_rank ? RankOf(segment) : static_cast<int64_t>(segment.getStage()));
    if (place != last) layouts.clear();
    last = place;
    Layouts made;
    mlir::FailureOr<StageSegment> exported = ExportSegment(segment, tensors, layouts, &made);
    if (mlir::failed(exported)) return mlir::failure();
    **index = static_cast<int>(set->segments.size());
    // The segment that writes these operands decides their layout, which the other segments then use.
    if (segment.getKind() == ir::SegmentKind::Forward) layouts[ir::Role::Saved] = made[ir::Role::Saved];
    if (segment.getKind() == ir::SegmentKind::BackwardInput) {
      layouts[ir::Role::SavedGrad] = made[ir::Role::SavedGrad];
    }
    for (const SegmentOperand& operand : exported->operands) {
      if (of_rank) break;
      if (operand.role == ir::Role::Saved) {
        StageIndex& stage = set->stages.back();
        (operand.use == kSavedForInput ? stage.saved_for_input_bytes : stage.saved_bytes) = operand.bytes;
      }
      if (operand.role == ir::Role::SavedGrad) set->stages.back().saved_grad_bytes = operand.bytes;
    }
    set->segments.push_back(*std::move(exported));
  }
  return mlir::success();
}

absl::StatusOr<SegmentSet> ExportSegments(mlir::ModuleOp module) {
  SegmentSet set;
  DiagnosticCollector collector(module.getContext());
  absl::Status status = collector.ToStatus(ExportSegmentOps(module, &set));
  if (!status.ok()) return status;
  FindSkips(module, &set);
  return set;
}

}  // namespace weft
