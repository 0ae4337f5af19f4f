// The collectives of a template. Those of actions and those of steps are described alike.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Returns the index in TemplateView::collectives of an equal call, which is added if there is none. NotFound for an
// unknown algorithm, InvalidArgument for what no verified program has.
absl::StatusOr<int32_t> AddActionCall(const Action& action, TemplateView& view);
absl::StatusOr<int32_t> AddStepCall(const Segment& segment, const Step& step, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_
