// Hierarchical: members form blocks of g neighbors, which share fast links, so there are N = n / g blocks. A
// reduce-scatter runs around a ring in each block, then around rings of the members at the same place in all blocks. An
// all-gather is the same backwards. An all-reduce is a reduce-scatter, then an all-gather. In each of the two, less
// than 1/g of each member's buffer crosses between blocks.
//
//   n = 4, g = 2, chunks a b c d     round 0        round 1    round 2    round 3
//   member 0   block 0               a c += m1      a += m2    c = m2     b d = m1
//   member 1                         b d += m0      b += m3    d = m3     a c = m0
//   member 2   block 1               a c += m3      c += m0    a = m0     b d = m3
//   member 3                         b d += m2      d += m1    b = m1     a c = m2
//                                    inside         across     across     inside
//
// Chunk k has place k mod g in block k div g. Each block sums chunk k in the order of the ring (ring.cc) that ends at
// the chunk's place. The sums of the blocks are then added in the order of the ring over the blocks that ends at the
// chunk's block.
//
// The plan knows members, not nodes. "hierarchical-8" uses blocks of gcd(n, 8) members, for groups that fill nodes of 8
// devices; "hierarchical-4" uses blocks of gcd(n, 4). "hierarchical" uses the largest divisor of n up to its square
// root. Blocks of 1, or of all n, make it a ring.
//
// Traffic: per member 2(g-1) rounds of N messages and 2(N-1) rounds of one message, each of 1/n of the buffer. Together
// they send 2(n-1)/n of the buffer, the least possible. A reduce-scatter or all-gather alone takes half of that.
// Source:  Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005 (rings); Jia et al., "Highly scalable deep learning training
//          system with mixed-precision", arXiv:1807.11205, sec. 3.3 (hierarchical all-reduce).
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {
namespace {

// The largest divisor of n up to its square root.
int64_t DivisorNearRoot(int64_t n) {
  int64_t divisor = 1;
  for (int64_t g = 1; g * g <= n; ++g) {
    if (n % g == 0) divisor = g;
  }
  return divisor;
}

// The rounds of a ring of `size` members whose pieces are numbered like the members. In round r, member i passes piece
// `held` - r + i (modulo `size`) on to member i + 1. Calls f(op, i, piece) for all i of each round, and `end` after
// each round.
template <typename F, typename G>
void Ring(int size, bool reduces, F f, G end) {
  const int held = reduces ? -1 : 0;
  for (int round = 0; round < size - 1; ++round) {
    for (int source = 0; source < size; ++source) {
      f(reduces ? CollectiveOp::kReduce : CollectiveOp::kCopy, source, (source + held - round + 2 * size) % size);
    }
    end();
  }
}

CollectivePlan Plan(CollectiveKind kind, int n, int g) {
  const int blocks = n / g;
  CollectivePlan plan = {.kind = kind, .members = n, .chunks = n, .rounds = {}};
  std::vector<CollectiveStep> steps;
  const auto inside = [&](CollectiveOp op, int place, int piece) {
    for (int block = 0; block < blocks; ++block) {
      for (int chunk = piece; chunk < n; chunk += g) {
        steps.push_back({block * g + place, block * g + (place + 1) % g, chunk, op});
      }
    }
  };
  const auto across = [&](CollectiveOp op, int block, int piece) {
    for (int place = 0; place < g; ++place) {
      steps.push_back({block * g + place, (block + 1) % blocks * g + place, piece * g + place, op});
    }
  };
  const auto end = [&] {
    std::sort(steps.begin(), steps.end(), [](const CollectiveStep& a, const CollectiveStep& b) {
      return std::tie(a.destination, a.chunk, a.source) < std::tie(b.destination, b.chunk, b.source);
    });
    plan.rounds.push_back(std::move(steps));
    steps.clear();
  };
  if (kind != CollectiveKind::kAllGather) {
    Ring(g, true, inside, end);
    Ring(blocks, true, across, end);
  }
  if (kind != CollectiveKind::kReduceScatter) {
    Ring(blocks, false, across, end);
    Ring(g, false, inside, end);
  }
  return plan;
}

CollectiveTraffic Traffic(CollectiveKind kind, int64_t members, int64_t block) {
  const int32_t n = static_cast<int32_t>(members);
  const int32_t g = static_cast<int32_t>(block);
  const auto next = [&](int32_t member, bool inside) {
    if (!inside) return (member + g) % n;
    return member / g * g + (member + 1) % g;
  };
  CollectiveTraffic traffic = {.chunks = n, .stages = {}};
  const auto add = [&](bool inside, int64_t rounds) {
    if (rounds == 0) return;
    CollectiveStage stage = {.rounds = rounds, .pattern = CollectiveStage::kListed, .exchanges = {}};
    for (int32_t member = 0; member < n; ++member) {
      stage.exchanges.push_back({member, next(member, inside), inside ? n / g : 1});
    }
    traffic.stages.push_back(std::move(stage));
  };
  const bool whole = kind == CollectiveKind::kAllReduce;
  if (kind != CollectiveKind::kAllGather) add(true, g - 1);
  add(false, (n / g - 1) * (whole ? 2 : 1));
  if (kind != CollectiveKind::kReduceScatter) add(true, g - 1);
  return traffic;
}

}  // namespace

CollectivePlan BuildHierarchical(CollectiveKind kind, int members) {
  return Plan(kind, members, static_cast<int>(DivisorNearRoot(members)));
}
CollectiveTraffic BuildHierarchicalTraffic(CollectiveKind kind, int64_t members) {
  return Traffic(kind, members, DivisorNearRoot(members));
}

CollectivePlan BuildHierarchical4(CollectiveKind kind, int members) {
  return Plan(kind, members, std::gcd(members, 4));
}
CollectiveTraffic BuildHierarchical4Traffic(CollectiveKind kind, int64_t members) {
  return Traffic(kind, members, std::gcd(members, int64_t{4}));
}

CollectivePlan BuildHierarchical8(CollectiveKind kind, int members) {
  return Plan(kind, members, std::gcd(members, 8));
}
CollectiveTraffic BuildHierarchical8Traffic(CollectiveKind kind, int64_t members) {
  return Traffic(kind, members, std::gcd(members, int64_t{8}));
}

}  // namespace weft
