#include "simulator/program/view_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

// Describes a whole buffer whose elements have type `source` at the members and type `destination` in the result.
CollectivePart Part(CollectiveKind kind, int64_t elements, DType source, DType destination) {
  return {.elements = elements,
          .element_bytes = std::max<int64_t>(DTypeBytes(source), 1),
          .one_by_one = kind == CollectiveKind::kReduceScatter && destination == EXACT192 && source != EXACT192};
}

int32_t AddCall(CollectiveCall call, TemplateView& view) {
  const auto found = std::find(view.collectives.begin(), view.collectives.end(), call);
  if (found != view.collectives.end()) return static_cast<int32_t>(found - view.collectives.begin());
  view.collectives.push_back(std::move(call));
  return static_cast<int32_t>(view.collectives.size()) - 1;
}

}  // namespace

absl::StatusOr<int32_t> AddActionCall(const Action& action, TemplateView& view) {
  CollectiveCall call;
  call.kind = action.kind() == ALL_GATHER       ? CollectiveKind::kAllGather
              : action.kind() == REDUCE_SCATTER ? CollectiveKind::kReduceScatter
                                                : CollectiveKind::kAllReduce;
  WEFT_ASSIGN_OR_RETURN(call.algorithm, FindCollective(action.algorithm()));
  const Template& t = *view.proto;
  if (action.sources_size() != action.destinations_size()) {
    return ViewError(
        t, action,
        absl::StrCat("it has ", action.sources_size(), " sources and ", action.destinations_size(), " destinations"));
  }
  for (int i = 0; i < action.sources_size(); ++i) {
    for (const int32_t buffer : {action.sources(i), action.destinations(i)}) {
      if (buffer >= 0 && buffer < t.buffers_size()) continue;
      return ViewError(t, action, absl::StrCat("buffer ", buffer, " does not exist"));
    }
    const Buffer& source = t.buffers(action.sources(i));
    const Buffer& destination = t.buffers(action.destinations(i));
    const Buffer& whole = call.kind == CollectiveKind::kAllGather ? destination : source;
    const int64_t elements = whole.bytes() / std::max<int64_t>(DTypeBytes(whole.dtype()), 1);
    call.parts.push_back(Part(call.kind, elements, source.dtype(), destination.dtype()));
  }
  return AddCall(std::move(call), view);
}

absl::StatusOr<int32_t> AddStepCall(const Segment& segment, const Step& step, TemplateView& view) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment '", segment.name(), "' step '", step.name(), "': ", what, "; was the program verified?"));
  };
  CollectiveCall call;
  switch (step.kernel()) {
    case GROUP_ALL_REDUCE:
      call.kind = CollectiveKind::kAllReduce;
      break;
    case GROUP_ALL_GATHER:
      call.kind = CollectiveKind::kAllGather;
      break;
    case GROUP_REDUCE_SCATTER:
      call.kind = CollectiveKind::kReduceScatter;
      break;
    default:
      return error(absl::StrCat("kernel ", static_cast<int>(step.kernel()), " on stream COLLECTIVE is no collective"));
  }
  WEFT_ASSIGN_OR_RETURN(call.algorithm, FindCollective(step.collective().algorithm()));
  if (step.inputs_size() != step.outputs_size()) {
    return error(absl::StrCat(step.inputs_size(), " inputs and ", step.outputs_size(), " outputs"));
  }
  for (int i = 0; i < step.inputs_size(); ++i) {
    for (const int32_t value : {step.inputs(i), step.outputs(i)}) {
      if (value < 0 || value >= segment.values_size()) return error(absl::StrCat("value ", value, " does not exist"));
    }
    const Value& source = segment.values(step.inputs(i));
    const Value& destination = segment.values(step.outputs(i));
    const Value& whole = call.kind == CollectiveKind::kAllGather ? destination : source;
    const auto elements = ElementCount(whole.shape());
    if (!elements.has_value()) return error(absl::StrCat("value '", whole.name(), "' has no size"));
    call.parts.push_back(Part(call.kind, *elements, source.dtype(), destination.dtype()));
  }
  return AddCall(std::move(call), view);
}

}  // namespace weft::sim
