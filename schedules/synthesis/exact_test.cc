// Compares exact search and bounds with all orders of a few slots.
#include "schedules/synthesis/exact.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/synthesis/bound.h"
#include "schedules/synthesis/problem.h"
#include "schedules/synthesis/uneven_cases_testing.h"

namespace weft {
namespace {

constexpr uint32_t kWork = 100'000'000;

// True if `id` waits for `other`, a slot of its microbatch, directly or through other slots.
bool FeedsInto(const SlotGraph& graph, int32_t other, int32_t id) {
  if (other == id || graph.microbatch(other) != graph.microbatch(id) || graph.kind(other) == kWeightOp) return false;
  const auto depth = [&](int32_t slot) {
    return graph.kind(slot) == kForwardOp ? graph.stage(slot) : 2 * graph.stages - 1 - graph.stage(slot);
  };
  return depth(other) < depth(id) || (graph.kind(id) == kWeightOp && depth(other) == depth(id));
}

// Calls `use` with every order of a rank's slots in which no slot comes before one that it waits for. Microbatches may
// come in any order.
template <typename Use>
void ForEachOrder(const SlotGraph& graph, std::vector<int32_t>& order, std::vector<int32_t>& left, const Use& use) {
  if (left.empty()) use(order);
  for (size_t i = 0; i < left.size(); ++i) {
    const int32_t id = left[i];
    bool blocked = false;
    for (const int32_t other : left) blocked |= FeedsInto(graph, other, id);
    if (blocked) continue;
    left.erase(left.begin() + i);
    order.push_back(id);
    ForEachOrder(graph, order, left, use);
    order.pop_back();
    left.insert(left.begin() + i, id);
  }
}

// Returns the smallest makespan, by trying all orders of all ranks; -1 if there are too many orders.
int64_t BruteForce(const SlotGraph& graph) {
  std::vector<SlotOrder> orders(graph.ranks);
  int64_t product = 1;
  for (int rank = 0; rank < graph.ranks; ++rank) {
    std::vector<int32_t> left, order;
    for (int32_t id = 0; id < static_cast<int32_t>(graph.time.size()); ++id) {
      if (graph.exists(id) && graph.rank[id] == rank) left.push_back(id);
    }
    ForEachOrder(graph, order, left, [&](const std::vector<int32_t>& list) {
      if (FitsMemory(graph, list)) orders[rank].push_back(list);
    });
    product *= static_cast<int64_t>(orders[rank].size());
  }
  if (product > 300'000) return -1;
  int64_t best = std::numeric_limits<int64_t>::max();
  OrderTimes times;
  SlotOrder order(graph.ranks);
  for (int64_t i = 0; i < product; ++i) {
    int64_t number = i;
    for (int rank = 0; rank < graph.ranks; ++rank) {
      order[rank] = orders[rank][number % orders[rank].size()];
      number /= static_cast<int64_t>(orders[rank].size());
    }
    if (TimeOrder(graph, order, times)) best = std::min(best, times.makespan);
  }
  return best;
}

TEST(ExactSearch, AgreesWithBruteForce) {
  std::mt19937_64 random(3);
  int tried = 0, capped = 0, looped = 0, tight = 0;
  for (int i = 0; i < 80; ++i) {
    const SynthesisProblem problem = RandomSmallProblem(random, 2, 2 + i % 2);
    // Others with two stages per rank have too many orders.
    if (problem.stages() > problem.ranks && (problem.split || problem.microbatches > 2)) continue;
    const SlotGraph graph(problem, problem.placements.back(), std::vector<int>(problem.microbatches),
                          HalvesOf(problem, /*prefer_whole=*/false));
    const int64_t best = BruteForce(graph), bound = BoundGraph(graph);
    if (best < 0) continue;
    EXPECT_LE(bound, best) << i;
    ++tried;
    looped += problem.stages() > problem.ranks && problem.microbatches > 1;
    tight += bound == best;
    capped += problem.memory_cap.has_value();
    if (!HasExactSearch()) continue;
    SlotOrder order;
    EXPECT_EQ(ExactSearch(graph, best - 1, kWork, order), ExactAnswer::kNone) << i;
    ASSERT_EQ(ExactSearch(graph, best, kWork, order), ExactAnswer::kFound) << i;
    OrderTimes times;
    ASSERT_TRUE(TimeOrder(graph, order, times));
    EXPECT_EQ(times.makespan, best) << i;
    for (const std::vector<int32_t>& list : order) EXPECT_TRUE(FitsMemory(graph, list));
  }
  std::printf("%d tried, %d capped, %d of several stages per rank, %d with a tight bound\n", tried, capped, looped,
              tight);
  EXPECT_GT(capped, 10);
  EXPECT_GT(tight * 2, tried);
}

TEST(BoundGraph, CountsFillWorkAndDrain) {
  // The slow last stage works without a pause between the first forwards and the last backwards of the others.
  SynthesisProblem problem = {
      .ranks = 3, .microbatches = 5, .costs = {{1, 2}, {1, 2}, {4, 8}}, .p2p = 1, .split = false};
  problem.placements = KnownPlacements(3, 3, false);
  EXPECT_EQ(LowerBound(problem), (1 + 1) * 2 + 5 * 12 + (1 + 2) * 2);
  // With room for one microbatch per stage, nothing overlaps on stage 0.
  problem.activations = {1, 1, 1};
  problem.memory_cap = 1;
  EXPECT_EQ(LowerBound(problem), 5 * (18 + 4));
}

TEST(ExactSearch, SaysThatItGaveUp) {
  if (!HasExactSearch()) GTEST_SKIP() << "built without Z3";
  const SynthesisProblem problem = UnevenCases()[8].problem;
  const SlotGraph graph(problem, problem.placements[0], std::vector<int>(problem.microbatches),
                        HalvesOf(problem, true));
  SlotOrder order;
  EXPECT_EQ(ExactSearch(graph, BoundGraph(graph), /*work=*/1000, order), ExactAnswer::kUnknown);
  EXPECT_TRUE(order.empty());
}

}  // namespace
}  // namespace weft
