// Ring: an all-reduce is a reduce-scatter around the ring, then an all-gather around the ring. The reduce-scatter and
// the all-gather also exist alone.
//
//   n = 3, chunks a b c; member i sends to i+1. Each cell: what the member receives in the round.
//             round 0    round 1    round 2    round 3
//   member 0  b += m2    a += m2    c  = m2    b  = m2
//   member 1  c += m0    b += m0    a  = m0    c  = m0
//   member 2  a += m1    c += m1    b  = m1    a  = m1
//             reduce-scatter ---    all-gather -------
//
// Chunk k starts at member k+1 and is complete at member k after n-1 rounds. Its terms are added in the order k+1, k+2,
// ..., k+n (mod n). Each element has one fixed order. Its sum is computed once and then copied, so all members hold the
// same bits.
//
// Traffic: a reduce-scatter or all-gather has n-1 rounds, in each of which every member sends one message of 1/n of the
//          buffer. So in an all-reduce each member sends 2(n-1)/n of the buffer, the least possible.
// Source:  Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2),
//          2009, sec. 4.
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {

CollectivePlan BuildRing(CollectiveKind kind, int members) {
  const int n = members;
  CollectivePlan plan = {.kind = kind, .members = n, .chunks = n, .rounds = {}};
  // In the first round, member i passes on chunk i + `held`. In each later round it passes on the chunk that it
  // received in the round before, whose number is one less.
  const auto add_rounds = [&](CollectiveOp op, int held) {
    for (int round = 0; round < n - 1; ++round) {
      std::vector<CollectiveStep>& steps = plan.rounds.emplace_back();
      for (int destination = 0; destination < n; ++destination) {
        const int source = (destination + n - 1) % n;
        steps.push_back({source, destination, (source + held - round + 2 * n) % n, op});
      }
    }
  };
  if (kind != CollectiveKind::kAllGather) add_rounds(CollectiveOp::kReduce, -1);
  if (kind != CollectiveKind::kReduceScatter) add_rounds(CollectiveOp::kCopy, 0);
  return plan;
}

CollectiveTraffic BuildRingTraffic(CollectiveKind kind, int64_t members) {
  const int64_t rounds = (kind == CollectiveKind::kAllReduce ? 2 : 1) * (members - 1);
  return {.chunks = members, .stages = {{.rounds = rounds, .pattern = CollectiveStage::kNext, .exchanges = {}}}};
}

}  // namespace weft
