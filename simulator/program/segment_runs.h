// The steps of a segment joined to runs, stream by stream.
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
  // In TemplateView::runs.
  Range runs;
  // One of them is_tail.
  bool has_tail = false;
};

// What the runs of a segment look like on its streams; shared by all actions of one kind on it whose steps are joined
// alike.
struct SegmentRuns {
  std::vector<SegmentStream> streams;
  // Steps that others wait for.
  int32_t named = 0;
  // Streams that have a tail; 0 if all steps are detached.
  int32_t tails = 0;
  // For whom waits for detached steps too: of every stream that ends with some, the last one.
  std::vector<RunWait> detached;
  // Of who waits for the action's end.
  IdleReason reason = IdleReason::kHostCopy;
};

// Adds the runs, their waits, steps and collectives to `view`. `ranges`: as StepUse has them.
absl::StatusOr<SegmentRuns> BuildSegmentRuns(const Program& program, int segment, ActionKind kind,
                                             const std::vector<StepRange>* ranges, const StepCostsFn& costs,
                                             const ProgramViewOptions& options, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_SEGMENT_RUNS_H_
