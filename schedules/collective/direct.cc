// Direct all-reduce: every member sends its whole contribution to every other; each sums all of them in member order.
//
//   n = 3, one round:   member 0: m0 + m1 + m2   receives m1, m2
//                       member 1: m0 + m1 + m2   receives m0, m2
//                       member 2: m0 + m1 + m2   receives m0, m1
//
// One latency instead of 2(n-1), and the plainest order of summation: 0, 1, ..., n-1 for every element. For short
// messages (losses, norms) and as the reference for the others. Reduce-scatter: every member sends to each other the
// chunk that is the other's, and sums its own in member order. All-gather: it sends its chunk to all others.
// Traffic: one round of n-1 messages per member. All-reduce: of the whole buffer, n/2 times the ring's bytes.
//          Reduce-scatter and all-gather: of 1/n of it, as many bytes as the ring's.
// Source:  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
//          2005: the cost model; the algorithm needs no source.
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {

CollectivePlan BuildDirect(CollectiveKind kind, int members) {
  const bool whole = kind == CollectiveKind::kAllReduce;
  const CollectiveOp op = kind == CollectiveKind::kAllGather ? CollectiveOp::kCopy : CollectiveOp::kReduce;
  CollectivePlan plan = {.kind = kind, .members = members, .chunks = whole ? 1 : members, .rounds = {}};
  std::vector<CollectiveStep>& steps = plan.rounds.emplace_back();
  for (int destination = 0; destination < members; ++destination) {
    for (int source = 0; source < members; ++source) {
      const int chunk = whole ? 0 : op == CollectiveOp::kCopy ? source : destination;
      if (source != destination) steps.push_back({source, destination, chunk, op});
    }
  }
  return plan;
}

CollectiveTraffic BuildDirectTraffic(CollectiveKind kind, int64_t members) {
  return {.chunks = kind == CollectiveKind::kAllReduce ? 1 : members,
          .stages = {{.rounds = 1, .pattern = CollectiveStage::kEveryOther, .exchanges = {}}}};
}

}  // namespace weft
