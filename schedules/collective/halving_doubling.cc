// Recursive halving and doubling. Reduce-scatter: in each round two partners split the chunks that both still sum. Each
// sends its partner the partner's half and adds what it receives for its own half. Partners are 1, 2, 4, ... apart, so
// the longest messages go to the nearest members. All-gather: the same rounds backwards. All-reduce: a reduce-scatter,
// then an all-gather.
//
//   n = 4, chunks a b c d     round 0         round 1     round 2     round 3
//   member 0                  a c += m1       a += m2     c  = m2     b d = m1
//   member 1                  b d += m0       b += m3     d  = m3     a c = m0
//   member 2                  a c += m3       c += m0     a  = m0     b d = m3
//   member 3                  b d += m2       d += m1     b  = m1     a c = m2
//                             reduce-scatter -------      all-gather --------
//
// Every chunk is summed as (0+1) + (2+3). If n is not a power of two, let p be the largest power of two below n and r =
// n - p. The first r pairs of members (2i, 2i+1) are folded: the first member of a pair sends all it has to the second
// before the rounds above, and gets its result from the second after them. The other p members do the rounds above.
//
// Traffic: for a power of two an all-reduce has 2 log2 n rounds, and 2(n-1)/n of the buffer leaves each member, the
//          least possible. For other n it has two more rounds, in which the whole buffer goes from one member to
//          another. A reduce-scatter or all-gather alone takes about half. A message is one chunk: 1/p of the buffer
//          in an all-reduce, otherwise 1/n.
// Source:  Rabenseifner, "Optimization of collective reduction operations", ICCS 2004, LNCS 3036, sec. 3; Thakur,
//          Rabenseifner, Gropp, IJHPCA 19(1), 2005, sec. 4.5.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {
namespace {

// Maps members and chunks to places. The size() members that are left after the folding have the places 0 to size() -
// 1, and each chunk belongs to one place.
class Core {
 public:
  Core(CollectiveKind kind, int n) : n_(n), all_reduce_(kind == CollectiveKind::kAllReduce) {
    while (2 * size_ <= n) size_ *= 2;
  }

  int size() const { return size_; }
  // Number of folded members, which do not take part in the rounds of the others. They are the members 2i of the first
  // pairs (2i, 2i+1).
  int folded() const { return n_ - size_; }
  int chunks() const { return all_reduce_ ? size_ : n_; }
  int Member(int place) const { return place < folded() ? 2 * place + 1 : place + folded(); }
  // The place of the member that sums the chunk (all-reduce, reduce-scatter) or contributes it (all-gather).
  int PlaceOf(int chunk) const {
    if (all_reduce_) return chunk;
    return chunk < 2 * folded() ? chunk / 2 : chunk - folded();
  }

 private:
  int n_;
  bool all_reduce_;
  int size_ = 1;
};

using Round = std::vector<CollectiveStep>;

// One round in which members whose places are `distance` apart exchange chunks. kReduce (halving): each member sends
// the chunks whose places agree with the partner's place modulo 2 * `distance`. kCopy (doubling): each member sends the
// chunks whose places agree with its own place modulo 2 * `distance`.
Round Exchange(const Core& core, int distance, CollectiveOp op) {
  Round round;
  std::vector<std::vector<int>> by_place(2 * distance);
  for (int chunk = 0; chunk < core.chunks(); ++chunk) by_place[core.PlaceOf(chunk) % (2 * distance)].push_back(chunk);
  for (int place = 0; place < core.size(); ++place) {
    const int from = place ^ distance;
    const int sent = (op == CollectiveOp::kReduce ? place : from) % (2 * distance);
    for (const int chunk : by_place[sent]) round.push_back({core.Member(from), core.Member(place), chunk, op});
  }
  return round;
}

// Calls f(round) for all rounds in order. The steps of a round are in any order.
template <typename F>
void ForEachRound(CollectiveKind kind, int n, F f) {
  const Core core(kind, n);
  const bool gathers = kind == CollectiveKind::kAllGather;
  const bool scatters = kind == CollectiveKind::kReduceScatter;
  if (core.folded() > 0) {
    Round fold;
    for (int i = 0; i < core.folded(); ++i) {
      for (int chunk = 0; chunk < core.chunks(); ++chunk) {
        if (gathers && chunk != 2 * i) continue;
        fold.push_back({2 * i, 2 * i + 1, chunk, gathers ? CollectiveOp::kCopy : CollectiveOp::kReduce});
      }
    }
    f(std::move(fold));
  }
  for (int distance = 1; !gathers && distance < core.size(); distance *= 2) {
    f(Exchange(core, distance, CollectiveOp::kReduce));
  }
  for (int distance = core.size() / 2; !scatters && distance > 0; distance /= 2) {
    f(Exchange(core, distance, CollectiveOp::kCopy));
  }
  if (core.folded() > 0) {
    Round unfold;
    for (int i = 0; i < core.folded(); ++i) {
      for (int chunk = 0; chunk < core.chunks(); ++chunk) {
        if (gathers ? chunk == 2 * i : scatters && chunk != 2 * i) continue;
        unfold.push_back({2 * i + 1, 2 * i, chunk, CollectiveOp::kCopy});
      }
    }
    f(std::move(unfold));
  }
}

}  // namespace

CollectivePlan BuildHalvingDoubling(CollectiveKind kind, int members) {
  CollectivePlan plan = {.kind = kind, .members = members, .chunks = Core(kind, members).chunks(), .rounds = {}};
  ForEachRound(kind, members, [&](Round round) {
    std::sort(round.begin(), round.end(), [](const CollectiveStep& a, const CollectiveStep& b) {
      return std::tie(a.destination, a.chunk, a.source) < std::tie(b.destination, b.chunk, b.source);
    });
    plan.rounds.push_back(std::move(round));
  });
  return plan;
}

CollectiveTraffic BuildHalvingDoublingTraffic(CollectiveKind kind, int64_t members) {
  const int n = static_cast<int>(members);
  const Core core(kind, n);
  const bool gathers = kind == CollectiveKind::kAllGather;
  const bool scatters = kind == CollectiveKind::kReduceScatter;
  CollectiveTraffic traffic = {.chunks = core.chunks(), .stages = {}};
  // Adds a round in which each source sends to one destination. The exchanges are in the order of the sources.
  const auto add = [&](std::vector<CollectiveExchange> exchanges) {
    traffic.stages.push_back({.rounds = 1, .pattern = CollectiveStage::kListed, .exchanges = std::move(exchanges)});
  };
  const auto add_pairs = [&](bool back, int messages) {
    std::vector<CollectiveExchange> exchanges;
    for (int i = 0; i < core.folded(); ++i) {
      exchanges.push_back({2 * i + back, 2 * i + !back, messages});
    }
    if (!exchanges.empty()) add(std::move(exchanges));
  };
  // Number of chunks whose place is `place` modulo `modulus`. A place has two chunks if it stands for a folded pair,
  // except in an all-reduce, where every place has one.
  const auto chunks_at = [&](int place, int modulus) {
    const int all = core.size() / modulus;
    const int folded = place < core.folded() ? (core.folded() - 1 - place) / modulus + 1 : 0;
    return all + (kind == CollectiveKind::kAllReduce ? 0 : folded);
  };
  const auto add_exchange = [&](int distance, bool halves) {
    std::vector<CollectiveExchange> exchanges;
    for (int place = 0; place < core.size(); ++place) {
      const int to = place ^ distance;
      const int messages = chunks_at((halves ? to : place) % (2 * distance), 2 * distance);
      exchanges.push_back({core.Member(place), core.Member(to), messages});
    }
    add(std::move(exchanges));
  };
  add_pairs(false, gathers ? 1 : core.chunks());
  for (int distance = 1; !gathers && distance < core.size(); distance *= 2) add_exchange(distance, true);
  for (int distance = core.size() / 2; !scatters && distance > 0; distance /= 2) add_exchange(distance, false);
  add_pairs(true, gathers ? n - 1 : scatters ? 1 : core.chunks());
  return traffic;
}

}  // namespace weft
