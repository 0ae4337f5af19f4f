// Lower bounds of the makespan.
#ifndef WEFT_SCHEDULES_SYNTHESIS_BOUND_H_
#define WEFT_SCHEDULES_SYNTHESIS_BOUND_H_

#include <cstdint>
#include <vector>

#include "schedules/synthesis/problem.h"
#include "schedules/synthesis/slot_graph.h"

namespace weft {

// Lower bounds for every schedule of a graph: the earliest start of each slot, and the least time from its start to the
// end of the schedule.
struct SlotBounds {
  std::vector<int64_t> head, tail;
};

// Heads and tails follow from
// - data: a slot starts after the slot whose result it reads;
// - the order of microbatches: groups run in ascending order (SlotGraph);
// - memory: if a stage alone fills the cap with K microbatches, its forward m starts after it is done with m - K;
// - the rank: a slot starts after all slots of its rank that must come before it have run, one at a time.
// Cost: O(n_r log n_r) for each slot, n_r = slots on its rank.
SlotBounds BoundSlots(const SlotGraph& graph);

// Returns the best bound of a graph. It is the largest of the longest head + tail and, for each rank, the makespan of
// its slots alone, each with its head and tail, if slots could be interrupted (Jackson's preemptive schedule). The
// latter counts work, fill and drain of the busiest rank.
//
// Source: Carlier 1982, "The one-machine sequencing problem", EJOR 11; Carlier and Pinson 1989, "An algorithm for
// solving the job-shop problem", Management Science 35 (heads from sets of predecessors).
int64_t BoundGraph(const SlotGraph& graph);

// Returns the smallest bound over all placements of the problem. With two lanes it is also the smallest over all shares
// of microbatches between them.
int64_t LowerBound(const SynthesisProblem& problem);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_BOUND_H_
