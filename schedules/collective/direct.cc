// Direct all-reduce: every member sends its whole contribution to every other; each sums all of them in member order.
//
//   n = 3, one round:   member 0: m0 + m1 + m2   receives m1, m2
//                       member 1: m0 + m1 + m2   receives m0, m2
//                       member 2: m0 + m1 + m2   receives m0, m1
//
// One latency instead of 2(n-1), and the plainest order of summation: 0, 1, ..., n-1 for every element. For short
// messages (losses, norms) and as the reference for the others.
// Traffic: one round of n-1 messages of the whole buffer per member, n/2 times the ring's bytes.
// Source:  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
//          2005: the cost model; the algorithm needs no source.
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {

CollectivePlan BuildDirect(int members) {
  CollectivePlan plan = {.members = members, .chunks = 1, .rounds = {}};
  std::vector<CollectiveStep>& steps = plan.rounds.emplace_back();
  for (int destination = 0; destination < members; ++destination) {
    for (int source = 0; source < members; ++source) {
      if (source != destination) steps.push_back({source, destination, /*chunk=*/0, CollectiveOp::kReduce});
    }
  }
  return plan;
}

CollectiveTraffic BuildDirectTraffic(int64_t members) { return {.rounds = 1, .messages = members - 1, .chunks = 1}; }

}  // namespace weft
