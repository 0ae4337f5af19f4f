// Local search: improves an order by moves on its critical paths.
#ifndef WEFT_SCHEDULES_SYNTHESIS_TABU_SEARCH_H_
#define WEFT_SCHEDULES_SYNTHESIS_TABU_SEARCH_H_

#include <cstdint>

#include "schedules/synthesis/slot_graph.h"

namespace weft {

// Problem: given an order that runs and fits the memory cap, find one with a smaller makespan.
// Method:  tabu search. A critical path is a chain of slots that fills the whole makespan; the slots of one rank that
//          follow each other on it form a block. A shorter schedule runs some slot of a block before the block's first
//          or after its last. So a move puts a slot behind the block's last slot or before its first, or as near
//          there as the order of its group and of its microbatch allows. A move's value is the longest path
//          through the moved slots, which needs the times of these slots only. The best move that is not tabu is made,
//          even if it makes the schedule longer; the pairs of slots that it reverses are tabu in the other direction
//          for some iterations. Each iteration follows one of the critical paths at random.
// Cost:    O(slots) per iteration, and O(block) per move.
// Ends after `iterations`, or when the makespan is `bound` or less.
// Source:  Nowicki and Smutnicki 1996, "A fast taboo search algorithm for the job shop problem", Management Science 42;
//          Balas and Vazacopoulos 1998, "Guided local search with shifting bottleneck for job shop scheduling",
//          Management Science 44 (the moves); Taillard 1994, ORSA Journal on Computing 6 (their values).
// Returns the best makespan and leaves its order in `order`.
int64_t TabuSearch(const SlotGraph& graph, int64_t iterations, int64_t bound, uint64_t seed, SlotOrder& order);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_TABU_SEARCH_H_
