// Ring all-reduce: reduce-scatter around the ring, then all-gather around the ring.
//
//   n = 3, chunks a b c; member i sends to i+1. Each cell: what the member receives in the round.
//             round 0    round 1    round 2    round 3
//   member 0  c += m2    b += m2    a  = m2    c  = m2
//   member 1  a += m0    c += m0    b  = m0    a  = m0
//   member 2  b += m1    a += m1    c  = m1    b  = m1
//             reduce-scatter ---    all-gather -------
//
// Chunk k starts at member k and is complete at member k+n-1 (mod n) after n-1 rounds. Its terms are added in the order
// k, k+1, ..., k+n-1 (mod n): for each element one fixed order, computed once and then copied, so all members hold the
// same bits.
// Traffic: 2(n-1) rounds of one message of 1/n of the buffer per member: 2(n-1)/n of the buffer in total, which is the
// least that any all-reduce can do.
// Source:  Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2),
//          2009, sec. 4.
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {

CollectivePlan BuildRing(int members) {
  const int n = members;
  CollectivePlan plan = {.members = n, .chunks = n, .rounds = {}};
  for (int round = 0; round < 2 * (n - 1); ++round) {
    const CollectiveOp op = round < n - 1 ? CollectiveOp::kReduce : CollectiveOp::kCopy;
    std::vector<CollectiveStep>& steps = plan.rounds.emplace_back();
    for (int destination = 0; destination < n; ++destination) {
      const int source = (destination + n - 1) % n;
      // The source passes on what it received in the round before: its own number minus the round.
      const int chunk = (source - round % n + n) % n;
      steps.push_back({source, destination, chunk, op});
    }
  }
  return plan;
}

CollectiveTraffic BuildRingTraffic(int64_t members) {
  return {.rounds = 2 * (members - 1), .messages = 1, .chunks = members};
}

}  // namespace weft
