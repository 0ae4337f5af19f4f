// Checks whether lists of slots form a valid schedule. The conditions do not depend on the algorithm that made the
// lists.
#ifndef WEFT_SCHEDULES_PIPELINE_CHECK_H_
#define WEFT_SCHEDULES_PIPELINE_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// Returns "F s1 m3", "B s1 m3", "I s1 m3" (input gradient) or "W s1 m3" (weight gradient). With several lanes the name
// has the lane: "F l1 s1 m3". A doubled forward is "F s1 m2-3", a slot of the next repetition "F s1 m3 (next)".
std::string SlotName(const PipelineSchedule& schedule, const Slot& slot);

struct WrongSlot {
  Slot slot;
  // The rank whose list contains the wrong slot, or lacks it.
  int rank = 0;
};

// Returns the index of the slot in the list of its rank: the second index if it is there twice, -1 if it is missing.
int64_t IndexOf(const WrongSlot& wrong, const PipelineSchedule& schedule);

// OK if the schedule is
// - well formed: one placement per lane, every stage on an existing rank, every index in range; each pair is a forward
//   and a whole backward, and neither belongs to a doubled forward; doubled forwards are the same in all stages;
//   message-driven and asynchronous settings make sense;
// - complete: every stage runs every microbatch forward once and backward once (whole, or as both halves), a microbatch
//   in one lane only;
// - consistent: every slot is on the rank that its lane's placement gives its stage;
// - in order on each rank: a backward after its forward, a weight gradient after its input gradient, and stages of one
//   rank in the order that data flows;
// - if message-driven, in one order of microbatches in all stages, and with at most one stage boundary from each rank
//   to each other;
// - free of deadlock: if ranks run their lists in order and wait for their inputs, all finish, whatever slots cost,
//   whatever a message-driven rank chooses, however often an asynchronous list repeats.
//
// InvalidArgument names the ranks and slots; it names a deadlock as a cycle. If the error is about slots, `wrong`, if
// not null, receives the first one that it names.
absl::Status CheckSchedule(const PipelineSchedule& schedule, int microbatches,
                           std::optional<WrongSlot>* wrong = nullptr);

// OK if each rank computes the weight gradients of a stage in ascending microbatch order, as accumulation IN_ORDER
// needs (rule P9). If two lanes put a stage on one rank, they share one gradient there.
absl::Status CheckAccumulationOrder(const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_CHECK_H_
