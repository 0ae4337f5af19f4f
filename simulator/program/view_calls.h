// Describes the collectives of a template. Actions and steps that are collectives have the same kind of description.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Add the call to TemplateView::collectives, unless an equal call is there already, and return its index. Errors:
// NotFound for an unknown algorithm, InvalidArgument for a fault that no verified program has.
absl::StatusOr<int32_t> AddActionCall(const Action& action, TemplateView& view);
absl::StatusOr<int32_t> AddStepCall(const Segment& segment, const Step& step, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_
