// Joins the steps of a segment to runs, stream by stream.
#ifndef WEFT_SIMULATOR_PROGRAM_SEGMENT_RUNS_H_
#define WEFT_SIMULATOR_PROGRAM_SEGMENT_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

struct SegmentStream {
  StreamKey key;
  // Range in TemplateView::runs.
  Range runs;
  // True if one of the runs is a tail (Run::is_tail).
  bool has_tail = false;
};

// The runs of a segment on its streams. Actions of one kind on the same segment share them if their steps are joined in
// the same way.
struct SegmentRuns {
  std::vector<SegmentStream> streams;
  // Number of steps that others wait for.
  int32_t named = 0;
  // Number of streams that have a tail; 0 if all steps are detached.
  int32_t tails = 0;
  // Waits for the detached steps of the segment: for the last one of every stream that ends with detached steps.
  std::vector<RunWait> detached;
  // Why a stream that waits for the action's end is idle.
  IdleReason reason = IdleReason::kHostCopy;
};

// Adds the runs of the segment, and their waits, steps and collectives, to `view`. `ranges` is StepUse::ranges.
absl::StatusOr<SegmentRuns> BuildSegmentRuns(const Program& program, int segment, ActionKind kind,
                                             const std::vector<StepRange>* ranges, const StepCostsFn& costs,
                                             const ProgramViewOptions& options, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_SEGMENT_RUNS_H_
