// Whether a schedule is one at all. Knows nothing of any algorithm: whatever made the lists, these must hold.
#ifndef WEFT_SCHEDULES_PIPELINE_CHECK_H_
#define WEFT_SCHEDULES_PIPELINE_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// "F s1 m3", "B s1 m3", "I s1 m3" (gradient of the input), "W s1 m3" (of the weights); with the lane where there are
// several: "F l1 s1 m3"; a doubled forward: "F s1 m2-3"; one of the next repetition: "F s1 m3 (next)".
std::string SlotName(const PipelineSchedule& schedule, const Slot& slot);

// OK if the schedule is
// - well formed: one placement per lane, every stage on an existing rank, every index in range, pairs that are a
//   forward and a whole backward, neither of a doubled forward's microbatches, doubled forwards alike in all stages,
//   message-driven and asynchronous settings that have a meaning;
// - complete: every stage runs every microbatch forward once and backward once (whole, or as both halves), a microbatch
//   in one lane only;
// - consistent: every slot is on the rank that its lane's placement gives its stage;
// - in order on each rank: a backward after its forward, a weight gradient after its input gradient, and stages of one
//   rank in the order that data flows;
// - if message-driven, in one order of microbatches in all stages, and with at most one stage boundary from each rank
//   to each other;
// - free of deadlock: ranks that run their lists in order and wait for their inputs all finish, whatever slots cost,
//   whatever a message-driven rank chooses, however often an asynchronous list repeats.
// InvalidArgument names the ranks and slots; a deadlock is named as a cycle.
absl::Status CheckSchedule(const PipelineSchedule& schedule, int microbatches);

// OK if on each rank the gradients of a stage's weights are made in ascending microbatch order, as accumulation
// IN_ORDER needs (rule P9). A stage that two lanes put on one rank has one gradient there.
absl::Status CheckAccumulationOrder(const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CHECK_H_
