// The collectives of a template: those of actions and of steps, described alike.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Index in TemplateView::collectives of one that is alike, added if there is none. NotFound for an unknown algorithm,
// InvalidArgument for what no verified program holds.
absl::StatusOr<int32_t> AddActionCall(const Action& action, TemplateView& view);
absl::StatusOr<int32_t> AddStepCall(const Segment& segment, const Step& step, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_CALLS_H_
