#include "schedules/synthesis/list_policy.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/synthesis/tabu_search.h"
#include "schedules/synthesis/uneven_cases_testing.h"

namespace weft {
namespace {

// Whatever the policy, the order solves the problem: it ends, runs and fits. Tabu search keeps it so and never makes it
// slower.
TEST(ListOrder, SolvesTheProblemUnderEveryPolicy) {
  std::mt19937_64 random(11);
  int improved = 0;
  for (int i = 0; i < 300; ++i) {
    SynthesisProblem problem = RandomSmallProblem(random, 4, 8);
    problem.placements = KnownPlacements(problem.ranks, problem.stages(), /*replicas=*/true);
    const Placement& placement = problem.placements[i % problem.placements.size()];
    std::vector<int> lane_of(problem.microbatches);
    for (int& lane : lane_of) lane = static_cast<int>(random() % placement.size());
    const SlotGraph graph(problem, placement, lane_of, HalvesOf(problem, i % 2 == 0));
    ListPolicy policy = {.tail = static_cast<int64_t>(random() % 2)};
    for (int64_t& kind : policy.kind) kind = static_cast<int64_t>(random() % 41) - 20;
    policy.microbatch = static_cast<int64_t>(random() % 20);
    policy.look_ahead = static_cast<int>(random() % 101);
    if (i % 3 == 0) policy.in_flight.assign(problem.stages(), 1 + static_cast<int>(random() % 3));
    SlotOrder order = ListOrder(graph, BoundSlots(graph), policy);
    const absl::StatusOr<ScheduleTiming> listed = CheckSolution(problem, ToSchedule(graph, order));
    ASSERT_TRUE(listed.ok()) << listed.status();
    OrderTimes times;
    ASSERT_TRUE(TimeOrder(graph, order, times));
    EXPECT_EQ(times.makespan, listed->makespan);

    const int64_t found = TabuSearch(graph, /*iterations=*/30, /*bound=*/0, /*seed=*/i, order);
    const absl::StatusOr<ScheduleTiming> searched = CheckSolution(problem, ToSchedule(graph, order));
    ASSERT_TRUE(searched.ok()) << searched.status();
    EXPECT_EQ(searched->makespan, found);
    EXPECT_LE(found, listed->makespan);
    improved += found < listed->makespan;
  }
  EXPECT_GT(improved, 100);
}

// A rank waits for an urgent slot only if it looks ahead.
TEST(ListOrder, LooksAhead) {
  // Rank 0 can compute the weight half of microbatch 0 (10) while the gradient of microbatch 1 is 1 away.
  SynthesisProblem problem = {.ranks = 2, .microbatches = 2, .costs = {{1, 11, 1, 10}, {3, 3, 3, 0}}};
  problem.placements = KnownPlacements(2, 2, false);
  const SlotGraph graph(problem, problem.placements[0], {0, 0}, HalvesOf(problem, true));
  ListPolicy policy = {.tail = 0, .kind = {2, 2, 0}};
  const auto order_of_rank_0 = [&] { return ListOrder(graph, BoundSlots(graph), policy)[0]; };
  const int32_t weight = graph.id(kWeightOp, 0, 0), gradient = graph.id(kGradientOp, 0, 1);
  const auto gradient_first = [&](const std::vector<int32_t>& list) {
    return std::find(list.begin(), list.end(), gradient) < std::find(list.begin(), list.end(), weight);
  };
  policy.look_ahead = 0;
  EXPECT_FALSE(gradient_first(order_of_rank_0()));
  policy.look_ahead = 100;
  EXPECT_TRUE(gradient_first(order_of_rank_0()));
}

}  // namespace
}  // namespace weft
