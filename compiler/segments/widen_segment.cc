#include "compiler/segments/widen_segment.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/segments/value_rows.h"
#include "ir/interfaces.h"
#include "kernels/traits.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "proto/util/value_bytes.h"

namespace weft {

namespace {

constexpr int64_t kValueAlignment = 64;
constexpr int64_t kLargestOperand = int64_t{1} << 60;

// True if a step on rows runs once for each microbatch. Such a step assumes that all its rows belong to one microbatch,
// or the order of its sums depends on the number of rows.
bool RunsByHalves(const Step& step, const std::vector<Rows>& rows) {
  switch (step.kernel()) {
    case GROUP_ALL_REDUCE:
    case GROUP_ALL_GATHER:
    case GROUP_REDUCE_SCATTER:
      return rows[step.inputs(0)] == Rows::kPerToken;
    case SLICE_COLUMNS:
      return step.attributes().groups() > 1;
    case NORM_COMBINE:
      return true;
    case DROPOUT:
    case DROPOUT_MASK:
    case POSITION_EMBEDDING:
      return step.attributes().has_row_shift();
    default:
      return kernels::IsLoss(step.kernel());
  }
}

// True for roles whose operands hold two microbatches in a wide forward (widen_segment.h), so they are twice as large.
bool IsWide(ir::Role role) {
  return role == ir::Role::Input || role == ir::Role::Output || role == ir::Role::Saved || role == ir::Role::Workspace;
}

// Bytes of the value; an error if they exceed what an operand may have.
absl::StatusOr<int64_t> BytesOf(const Value& value) {
  const std::optional<int64_t> bytes = ValueBytes(value);
  if (bytes && *bytes <= kLargestOperand) return *bytes;
  return absl::InvalidArgumentError(absl::StrCat("value '", value.name(), "' has more than 2^60 bytes"));
}

bool Crosses(ir::Role role) { return role == ir::Role::Input || role == ir::Role::Output; }

// Distance between the first bytes of the two halves of a value. Within a stage there may be padding between the
// halves; between stages the microbatches of a message must be adjacent.
absl::StatusOr<int64_t> HalfBytes(const Segment& segment, const Value& value, ir::Role role) {
  WEFT_ASSIGN_OR_RETURN(int64_t bytes, BytesOf(value));
  if (bytes % kValueAlignment == 0) return bytes;
  if (!Crosses(role)) return RoundUp(bytes, kValueAlignment);
  return absl::InvalidArgumentError(absl::StrCat(
      "segment '", segment.name(), "': value '", value.name(), "' has ", bytes,
      " bytes per microbatch; if two microbatches run as one forward, this must be a multiple of ", kValueAlignment,
      ", because one message carries both between stages; make the number of tokens (or images) of a microbatch a "
      "multiple of "
      "16, or use a schedule without forward doubling"));
}

// The steps that run once for each microbatch, and the values that are therefore split into halves.
struct Halves {
  std::vector<bool> steps;
  std::vector<bool> values;
};

// Finds these steps and values. A value whose halves lie apart is not one wide value, so all steps that use it run once
// for each half. Other values of these steps lie apart too if they cannot be cut at a multiple of 64 bytes.
absl::StatusOr<Halves> FindHalves(const StageSegment& forward, const std::vector<Rows>& rows) {
  const Segment& segment = forward.segment;
  Halves halves;
  std::vector<bool> uneven(segment.values_size(), false);
  halves.values.resize(segment.values_size(), false);
  for (int i = 0; i < segment.values_size(); ++i) {
    const ir::Role role = forward.operands[segment.values(i).operand()].role;
    if (rows[i] != Rows::kPerToken || !IsWide(role) || Crosses(role)) continue;
    WEFT_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(segment.values(i)));
    uneven[i] = bytes % kValueAlignment != 0;
    // A saved value is cut at once, because a backward reads only its own half.
    halves.values[i] = uneven[i] && role == ir::Role::Saved;
  }
  for (const Step& step : segment.steps()) halves.steps.push_back(RunsByHalves(step, rows));
  for (bool changed = true; changed;) {
    changed = false;
    for (int s = 0; s < segment.steps_size(); ++s) {
      std::vector<int32_t> touched(segment.steps(s).inputs().begin(), segment.steps(s).inputs().end());
      touched.insert(touched.end(), segment.steps(s).outputs().begin(), segment.steps(s).outputs().end());
      bool apart = halves.steps[s];
      for (int32_t value : touched) apart = apart || halves.values[value];
      changed = changed || apart != halves.steps[s];
      halves.steps[s] = apart;
      for (int32_t value : touched) {
        if (!apart || !uneven[value] || halves.values[value]) continue;
        halves.values[value] = changed = true;
      }
    }
  }
  return halves;
}

absl::Status WidenOperands(StageSegment* segment, bool backward) {
  for (size_t i = 0; i < segment->operands.size(); ++i) {
    SegmentOperand& operand = segment->operands[i];
    const bool wide =
        backward ? operand.role == ir::Role::Input || operand.role == ir::Role::Saved : IsWide(operand.role);
    if (!wide) continue;
    if (operand.bytes > kLargestOperand / kForwardWidth) {
      return absl::InvalidArgumentError(absl::StrCat("segment '", segment->segment.name(), "': operand '",
                                                     segment->segment.operands(static_cast<int>(i)).name(),
                                                     "' would have more than 2^60 bytes for two microbatches"));
    }
    operand.bytes *= kForwardWidth;
    if (!operand.shape.empty()) operand.shape[0] *= kForwardWidth;
    segment->segment.mutable_operands(static_cast<int>(i))->set_bytes(operand.bytes);
  }
  return absl::OkStatus();
}

// Sets the work of a step on twice the rows. Parameters are still read once.
absl::Status WidenWork(const Segment& before, const std::vector<Rows>& rows, Step* step) {
  if (rows[step->outputs(0)] != Rows::kPerToken) return absl::OkStatus();
  int64_t once = 0;
  for (int input : step->inputs()) {
    // An embedding reads only the table's rows of its tokens.
    if (rows[input] == Rows::kPerToken || step->kernel() == EMBEDDING || step->kernel() == POSITION_EMBEDDING) continue;
    WEFT_ASSIGN_OR_RETURN(int64_t bytes, BytesOf(before.values(input)));
    once += bytes;
  }
  Work* work = step->mutable_work();
  work->set_flops(ir::SaturatingAdd(work->flops(), work->flops()));
  work->set_bytes(ir::SaturatingAdd(work->bytes(), std::max<int64_t>(0, work->bytes() - once)));
  return absl::OkStatus();
}

// Adds a value for half `part` of the wide value `index`. In `forward`, value `index` was the value of one microbatch.
// Returns the index of the new value.
absl::StatusOr<int32_t> AddHalf(const StageSegment& forward, int index, int part, Segment* segment) {
  const Segment& before = forward.segment;
  Value half = before.values(index);
  WEFT_ASSIGN_OR_RETURN(int64_t bytes, HalfBytes(before, half, forward.operands[half.operand()].role));
  half.set_name(absl::StrCat(half.name(), part == 0 ? " (first microbatch)" : " (second microbatch)"));
  half.set_offset(segment->values(index).offset() + part * bytes);
  *segment->add_values() = half;
  return segment->values_size() - 1;
}

absl::Status CheckForward(const StageSegment& forward) {
  if (forward.kind == ir::SegmentKind::Forward && forward.width == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("segment '", forward.segment.name(), "' is not a forward of one microbatch"));
}

}  // namespace

absl::StatusOr<StageSegment> WidenForward(const StageSegment& forward) {
  WEFT_RETURN_IF_ERROR(CheckForward(forward));
  WEFT_ASSIGN_OR_RETURN(std::vector<Rows> rows, RowsOfForward(forward));
  WEFT_ASSIGN_OR_RETURN(const Halves halves, FindHalves(forward, rows));
  StageSegment wide = forward;
  wide.width = kForwardWidth;
  Segment& segment = wide.segment;
  WEFT_RETURN_IF_ERROR(WidenOperands(&wide, false));
  segment.set_name(absl::StrCat(forward.segment.name(), ".wide"));
  for (int i = 0; i < segment.values_size(); ++i) {
    Value* value = segment.mutable_values(i);
    const ir::Role role = forward.operands[value->operand()].role;
    if (!IsWide(role)) continue;
    // Doubling every offset leaves space for twice the rows in every value.
    value->set_offset(value->offset() * kForwardWidth);
    if (rows[i] != Rows::kPerToken) continue;
    if (role == ir::Role::Input || role == ir::Role::Saved) {
      WEFT_RETURN_IF_ERROR(HalfBytes(forward.segment, forward.segment.values(i), role).status());
    }
    // If the halves of a value lie apart, this value becomes the first half and keeps its shape.
    if (halves.values[i]) continue;
    value->set_shape(0, value->shape(0) * kForwardWidth);
  }
  segment.clear_steps();
  // The new indices of each step of `forward`. For a compute step that became two steps, the second index; for a
  // collective, both.
  std::vector<std::vector<int32_t>> step_index;
  for (int s = 0; s < forward.segment.steps_size(); ++s) {
    const Step& from = forward.segment.steps(s);
    const int copies = halves.steps[s] ? kForwardWidth : 1;
    for (int part = 0; part < copies; ++part) {
      Step step = from;
      step.clear_deps();
      for (int dep : from.deps()) {
        for (int32_t index : step_index[dep]) step.add_deps(index);
      }
      if (copies == 1) {
        WEFT_RETURN_IF_ERROR(WidenWork(forward.segment, rows, &step));
      } else {
        for (auto* values : {step.mutable_inputs(), step.mutable_outputs()}) {
          for (int32_t& value : *values) {
            if (rows[value] != Rows::kPerToken) continue;
            if (part == 0 && halves.values[value]) continue;
            WEFT_ASSIGN_OR_RETURN(value, AddHalf(forward, value, part, &segment));
          }
        }
        if (kernels::MayReadMicrobatch(step.kernel())) {
          step.mutable_attributes()->set_microbatch_offset(part);
        }
      }
      *segment.add_steps() = std::move(step);
    }
    const int32_t last = segment.steps_size() - 1;
    step_index.push_back({last});
    if (copies > 1 && from.stream() == COLLECTIVE) step_index.back() = {last - 1, last};
  }
  return wide;
}

absl::StatusOr<StageSegment> BackwardOfWide(const StageSegment& forward, const StageSegment& backward, int part) {
  WEFT_RETURN_IF_ERROR(CheckForward(forward));
  const bool is_backward = backward.kind == ir::SegmentKind::Backward ||
                           backward.kind == ir::SegmentKind::BackwardInput ||
                           backward.kind == ir::SegmentKind::BackwardWeight;
  if (!is_backward || backward.part >= 0 || backward.stage != forward.stage || part < 0 || part >= kForwardWidth) {
    return absl::InvalidArgumentError(absl::StrCat("segment '", backward.segment.name(),
                                                   "' is not a backward of one microbatch of stage ", forward.stage,
                                                   ", or part ", part, " is not 0 or 1"));
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Rows> rows, RowsOfForward(forward));
  StageSegment narrow = backward;
  narrow.part = part;
  WEFT_RETURN_IF_ERROR(WidenOperands(&narrow, true));
  narrow.segment.set_name(absl::StrCat(backward.segment.name(), ".part", part));
  for (Value& value : *narrow.segment.mutable_values()) {
    const SegmentOperand& operand = backward.operands[value.operand()];
    bool by_halves = operand.role == ir::Role::Input;
    if (operand.role == ir::Role::Saved) {
      bool found = false;
      for (int i = 0; i < forward.segment.values_size(); ++i) {
        const Value& written = forward.segment.values(i);
        const SegmentOperand& place = forward.operands[written.operand()];
        if (place.role != operand.role || place.use != operand.use || written.offset() != value.offset()) continue;
        found = true;
        by_halves = rows[i] == Rows::kPerToken;
      }
      if (!found) {
        return absl::InvalidArgumentError(absl::StrCat("segment '", backward.segment.name(), "': value '", value.name(),
                                                       "' is not one that '", forward.segment.name(), "' saves"));
      }
    } else if (!by_halves) {
      continue;
    }
    int64_t offset = value.offset() * kForwardWidth;
    if (by_halves) {
      WEFT_ASSIGN_OR_RETURN(int64_t bytes, HalfBytes(backward.segment, value, operand.role));
      offset += part * bytes;
    }
    value.set_offset(offset);
  }
  return narrow;
}

}  // namespace weft
