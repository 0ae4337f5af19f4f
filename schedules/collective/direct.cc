// Direct all-reduce: every member sends its whole contribution to every other; each sums all of them in member order.
//
//   n = 3, one round:   member 0: m0 + m1 + m2   receives m1, m2
//                       member 1: m0 + m1 + m2   receives m0, m2
//                       member 2: m0 + m1 + m2   receives m0, m1
//
// It has one latency instead of 2(n-1), and the plainest order of summation: 0, 1, ..., n-1 for every element. It suits
// short messages (losses, norms) and serves as the reference for the other algorithms. In a reduce-scatter every member
// sends each other member that member's chunk, and sums its own chunk in member order. In an all-gather every member
// sends its chunk to all others.
//
// Traffic: one round of n-1 messages per member. In an all-reduce a message is the whole buffer: n/2 times the bytes of
//          a ring. In a reduce-scatter or all-gather it is 1/n of the buffer: as many bytes as a ring.
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
