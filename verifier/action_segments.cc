// Checks what an action runs: its segment, the buffers that it binds, the microbatches of its steps, and copies (P2,
// P6, P8).
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/traits.h"
#include "proto/util/units.h"
#include "verifier/actions.h"

namespace weft::verify {

bool ActionSegments::HasDetached(const Action& action) const {
  if (!IsCompute(action.kind()) || action.segment() < 0 || action.segment() >= program_.segments_size()) return false;
  const Segment& segment = program_.segments(action.segment());
  return std::any_of(segment.steps().begin(), segment.steps().end(), [](const Step& s) { return s.detached(); });
}

void ActionSegments::CheckCompute(const Action& action) {
  if (action.segment() < 0 || action.segment() >= program_.segments_size()) {
    Bad("P2.segment", action, "names segment ", action.segment(), ", but the program has ", program_.segments_size());
    return;
  }
  const Segment& segment = program_.segments(action.segment());
  if (action.operands_size() != segment.operands_size()) {
    Bad("P2.operand", action, "binds ", action.operands_size(), " operands, segment '", segment.name(), "' has ",
        segment.operands_size());
    return;
  }
  CheckOperands(action, segment);
  if (const std::string fault = room_.Fault(action, segment); !fault.empty()) Bad("P8.room", action, fault);
  const auto [of, first] = microbatch_steps_.try_emplace(action.segment());
  if (first) {
    for (int i = 0; i < segment.steps_size(); ++i) {
      if (kernels::ReadsMicrobatch(segment.steps(i))) of->second.push_back(i);
    }
  }
  for (const int i : of->second) {
    if (!CheckMicrobatches(action, segment, segment.steps(i))) break;
  }
  if (findings_->empty() && IsCopy(action.kind())) CheckCopies(action, segment);
  if (first) {
    for (const Step& step : segment.steps()) {
      if (step.has_collective())
        CheckGroup(action, absl::StrCat("step '", step.name(), "': "), step.collective().group());
    }
  }
  if (IsMessageDriven(program_) && IsMicrobatch(action.kind())) {
    for (const Step& step : segment.steps()) {
      if (step.stream() == COMPUTE) continue;
      Bad("P6.streams", action, "step '", step.name(), "' is on stream ", StreamKind_Name(step.stream()),
          "; in a message-driven program the steps of forwards and backwards must be on COMPUTE");
      break;
    }
  }
}

// Checks that bound buffers have the sizes of the segment's operands, and that a buffer bound twice is only read.
void ActionSegments::CheckOperands(const Action& action, const Segment& segment) {
  operand_of_.resize(t_.buffers_size(), -1);
  for (int i = 0; i < action.operands_size(); ++i) {
    const int b = action.operands(i);
    if (!BufferOk(action, "operands", b)) continue;
    if (t_.buffers(b).bytes() != segment.operands(i).bytes()) {
      Bad("P2.operand", action, "binds ", DescribeBuffer(t_, b), " of ", t_.buffers(b).bytes(), " bytes to operand '",
          segment.operands(i).name(), "' of ", segment.operands(i).bytes());
    }
    const int first = operand_of_[b];
    if (first < 0) {
      operand_of_[b] = i;
    } else if (segment.operands(i).access() != READ || segment.operands(first).access() != READ) {
      Bad("P2.operand", action, "binds ", DescribeBuffer(t_, b), " to operands '", segment.operands(first).name(),
          "' and '", segment.operands(i).name(), "', but the segment writes one of them");
    }
  }
  for (const int b : action.operands()) {
    if (b >= 0 && b < t_.buffers_size()) operand_of_[b] = -1;
  }
}

// Rule P2: each step of a FETCH copies from host to device memory, each step of an OFFLOAD the other way.
void ActionSegments::CheckCopies(const Action& action, const Segment& segment) {
  const bool fetch = action.kind() == FETCH;
  const StreamKind stream = fetch ? H2D : D2H;
  for (const Step& step : segment.steps()) {
    const auto bad = [&](const auto&... parts) { Bad("P2.copy", action, "step '", step.name(), "' ", parts...); };
    if (step.kernel() != CAST || step.stream() != stream) {
      return bad("is ", Kernel_Name(step.kernel()), " on stream ", StreamKind_Name(step.stream()), "; the steps of a ",
                 ActionKind_Name(action.kind()), " must be CAST on ", StreamKind_Name(stream));
    }
    const Value &from = segment.values(step.inputs(0)), &to = segment.values(step.outputs(0));
    if (from.dtype() != to.dtype()) {
      return bad("makes ", DTypeName(to.dtype()), " from ", DTypeName(from.dtype()),
                 "; it must copy without a change of dtype");
    }
    const Buffer &source = t_.buffers(action.operands(from.operand())),
                 &destination = t_.buffers(action.operands(to.operand()));
    if (source.place() == (fetch ? HOST : DEVICE) && destination.place() == (fetch ? DEVICE : HOST)) continue;
    return bad("copies ", DescribeBuffer(t_, action.operands(from.operand())), " in ", Place_Name(source.place()),
               " memory to ", DescribeBuffer(t_, action.operands(to.operand())), " in ",
               Place_Name(destination.place()), " memory; a ", ActionKind_Name(action.kind()), " copies from ",
               fetch ? "HOST to DEVICE" : "DEVICE to HOST");
  }
}

// Checks that the microbatches of a step that reads them are among the action's.
bool ActionSegments::CheckMicrobatches(const Action& action, const Segment& segment, const Step& step) {
  const Kernel k = step.kernel();
  const auto bad = [&](const auto&... parts) {
    Bad("P2.kernel", action, "step '", step.name(), "' (", Kernel_Name(k), ") ", parts...);
    return false;
  };
  if (!IsMicrobatch(action.kind())) {
    return bad("reads the microbatch, which only forwards and backwards have");
  }
  if (step.attributes().of_backward() && action.kind() != FORWARD_BACKWARD) {
    return bad("has of_backward, which only a step of a FORWARD_BACKWARD may have");
  }
  const int64_t one = std::max<int64_t>(1, RowsOfMicrobatch(program_, step));
  const int64_t count = std::max<int64_t>(1, kernels::RowsValue(segment, step)->shape(0) / one);
  const int64_t offset = step.attributes().microbatch_offset();
  const int width = Width(action);
  if (kernels::IsLoss(k) && count > 1)
    return bad("has the rows of ", count, " microbatches; it must have the rows of one");
  if (offset < 0 || offset > width - count) {
    return bad("is for ", count, " microbatches at offset ", offset, ", but the action has ", width);
  }
  return true;
}

}  // namespace weft::verify
