// The steps of a segment joined to runs, stream by stream.
#ifndef WEFT_SIMULATOR_SEGMENT_RUNS_H_
#define WEFT_SIMULATOR_SEGMENT_RUNS_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/program_view.h"

namespace weft {

inline constexpr int kStepStreams = 3;  // compute, d2h, h2d: StreamKind and the first three of StreamClass.

// What the runs of a segment look like on its streams; shared by all actions of one kind on it.
struct SegmentRuns {
  std::array<Range, kStepStreams> runs;
  std::array<bool, kStepStreams> has_tail = {};
  // Steps that another stream waits for.
  int32_t named = 0;
  int32_t tails = 0;
  int32_t streams = 0;
};

// Adds the runs, their waits and steps to `view`.
absl::StatusOr<SegmentRuns> BuildSegmentRuns(const Program& program, int segment, ActionKind kind,
                                             const StepDurationFn& duration, const ProgramViewOptions& options,
                                             TemplateView& view);

}  // namespace weft

#endif  // WEFT_SIMULATOR_SEGMENT_RUNS_H_
