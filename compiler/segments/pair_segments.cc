#include "compiler/segments/pair_segments.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/segments/cost_of_ops.h"
#include "ir/interfaces.h"
#include "kernels/traits.h"
#include "proto/util/status.h"

namespace weft {

namespace {

bool IsPersistent(ir::Role role) {
  switch (role) {
    case ir::Role::Input:
    case ir::Role::Output:
    case ir::Role::OutputGrad:
    case ir::Role::InputGrad:
    case ir::Role::Saved:
    case ir::Role::SavedGrad:
    case ir::Role::Workspace:
      return false;
    default:
      return true;
  }
}

// One side of a pair while its steps are merged.
struct Side {
  const Segment* segment = nullptr;
  std::vector<int64_t> costs;
  int64_t total = 0;
  int64_t done = 0;
  int next = 0;
  // Indices in the merged segment: the index of each of this side's operands, of its first value, and of each of its
  // steps.
  std::vector<int32_t> operands;
  int32_t first_value = 0;
  std::vector<int32_t> steps;

  bool finished() const { return next == segment->steps_size(); }
};

absl::StatusOr<Side> MakeSide(const StageSegment& segment, ActionKind kind, const StepCost& cost) {
  Side side;
  side.segment = &segment.segment;
  for (const Step& step : segment.segment.steps()) {
    WEFT_ASSIGN_OR_RETURN(int64_t picoseconds, cost(segment.segment, step, kind));
    // A step without work still counts as one picosecond.
    side.costs.push_back(std::max<int64_t>(1, picoseconds));
    side.total = ir::SaturatingAdd(side.total, side.costs.back());
  }
  return side;
}

void AddStep(Side& side, bool of_backward, Segment* merged) {
  const Step& from = side.segment->steps(side.next);
  side.steps.push_back(merged->steps_size());
  Step* step = merged->add_steps();
  *step = from;
  for (int i = 0; i < step->inputs_size(); ++i) step->set_inputs(i, side.first_value + from.inputs(i));
  for (int i = 0; i < step->outputs_size(); ++i) step->set_outputs(i, side.first_value + from.outputs(i));
  for (int i = 0; i < step->deps_size(); ++i) step->set_deps(i, side.steps[from.deps(i)]);
  if (of_backward && kernels::MayReadMicrobatch(step->kernel())) step->mutable_attributes()->set_of_backward(true);
  side.done = ir::SaturatingAdd(side.done, side.costs[side.next]);
  ++side.next;
}

absl::Status AddOperands(const StageSegment& from, int half, Side& side, StageSegment* merged) {
  const size_t of_forward = half == 0 ? 0 : merged->operands.size();
  for (size_t i = 0; i < from.operands.size(); ++i) {
    const SegmentOperand& operand = from.operands[i];
    const bool persistent = IsPersistent(operand.role);
    size_t same = of_forward;
    for (size_t k = 0; persistent && k < of_forward; ++k) {
      const SegmentOperand& other = merged->operands[k];
      if (other.role == operand.role && other.tensor == operand.tensor && other.use == operand.use) same = k;
    }
    if (same < of_forward) {
      if (operand.access != READ || merged->operands[same].access != READ) {
        return absl::InvalidArgumentError(
            absl::StrCat("segment '", from.segment.name(), "' cannot be paired: operand '",
                         from.segment.operands(static_cast<int>(i)).name(),
                         "' is also an operand of the forward, and at least one of the two writes it"));
      }
      side.operands.push_back(static_cast<int32_t>(same));
      continue;
    }
    side.operands.push_back(static_cast<int32_t>(merged->operands.size()));
    merged->operands.push_back(operand);
    merged->operands.back().half = half;
    Operand* added = merged->segment.add_operands();
    *added = from.segment.operands(static_cast<int>(i));
    if (!persistent) added->set_name(absl::StrCat(half == 0 ? "forward " : "backward ", added->name()));
  }
  return absl::OkStatus();
}

void AddValues(Side& side, Segment* merged) {
  side.first_value = merged->values_size();
  for (const Value& value : side.segment->values()) {
    Value* added = merged->add_values();
    *added = value;
    added->set_operand(side.operands[value.operand()]);
  }
}

absl::Status CheckKinds(const StageSegment& forward, const StageSegment& backward) {
  const bool is_backward =
      backward.kind == ir::SegmentKind::Backward || backward.kind == ir::SegmentKind::BackwardInput;
  if (forward.kind != ir::SegmentKind::Forward || !is_backward) {
    return absl::InvalidArgumentError(
        absl::StrCat("segments '", forward.segment.name(), "' and '", backward.segment.name(),
                     "' cannot be paired; needed: a forward, and a backward or backward_input"));
  }
  if (forward.width != 1 || backward.part >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("segments '", forward.segment.name(), "' and '", backward.segment.name(),
                     "' cannot be paired: a pair must have one microbatch on each side, not two"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StageSegment> MergeSegments(const StageSegment& forward, const StageSegment& backward,
                                           const StepCost& cost) {
  WEFT_RETURN_IF_ERROR(CheckKinds(forward, backward));
  const StepCost cost_of_step = cost ? cost : StepCost(NominalStepCost);
  WEFT_ASSIGN_OR_RETURN(Side first, MakeSide(forward, FORWARD, cost_of_step));
  WEFT_ASSIGN_OR_RETURN(Side second, MakeSide(backward, BACKWARD, cost_of_step));
  StageSegment merged;
  merged.kind = ir::SegmentKind::ForwardBackward;
  merged.stage = forward.stage;
  merged.backward_stage = backward.stage;
  merged.segment.set_name(absl::StrCat(forward.segment.name(), "_", backward.segment.name()));
  WEFT_RETURN_IF_ERROR(AddOperands(forward, 0, first, &merged));
  WEFT_RETURN_IF_ERROR(AddOperands(backward, 1, second, &merged));
  AddValues(first, &merged.segment);
  AddValues(second, &merged.segment);
  while (!first.finished() || !second.finished()) {
    // Compares done / total without dividing, because totals may be as large as an int64.
    const bool forward_next =
        static_cast<__int128>(first.done) * second.total <= static_cast<__int128>(second.done) * first.total;
    if (second.finished() || (forward_next && !first.finished())) {
      AddStep(first, false, &merged.segment);
    } else {
      AddStep(second, true, &merged.segment);
    }
  }
  return merged;
}

}  // namespace weft
