// List scheduling with look-ahead: builds an order slot by slot, by priorities.
#ifndef WEFT_SCHEDULES_SYNTHESIS_LIST_POLICY_H_
#define WEFT_SCHEDULES_SYNTHESIS_LIST_POLICY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "schedules/synthesis/bound.h"
#include "schedules/synthesis/slot_graph.h"

namespace weft {

// The priority of a slot is tail * (its tail in SlotBounds) + kind[its kind] - microbatch * (its microbatch).
struct ListPolicy {
  int64_t tail = 1;
  std::array<int64_t, 3> kind = {};
  int64_t microbatch = 0;
  // 0: a rank never idles while a slot of it is ready. 100: it waits for any slot that would start before the first of
  // its ready slots ended.
  int look_ahead = 0;
  // Largest number of microbatches in flight in each stage of a lane; empty = only the memory cap limits them.
  std::vector<int> in_flight = {};
};

// Problem: find an order of a graph's slots that runs, within the memory cap.
// Method:  parameterized active schedules. Of all slots whose inputs are scheduled, take the one that could end first.
//          On its rank, among the slots that could start before it ends (before a share `look_ahead` of that), schedule
//          the one of the highest priority. A forward is held back if the microbatches in flight could then not finish
//          one after the other within the cap (the banker's algorithm). The oldest microbatch is never held back, so
//          the method always ends.
// Cost:    O(slots * 3 * stages * lanes), and O(microbatches in flight) for each forward that the cap may hold back.
// Source:  Giffler and Thompson 1960, Operations Research 8; Bierwirth and Mattfeld 1999, "Production scheduling and
//          rescheduling with genetic algorithms", Evolutionary Computation 7 (the parameter); Dijkstra 1965, EWD 123.
SlotOrder ListOrder(const SlotGraph& graph, const SlotBounds& bounds, const ListPolicy& policy);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_LIST_POLICY_H_
