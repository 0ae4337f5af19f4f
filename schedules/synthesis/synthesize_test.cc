#include "schedules/synthesis/synthesize.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/synthesis/exact.h"
#include "schedules/synthesis/uneven_cases_testing.h"

namespace weft {
namespace {

// Expects that no named schedule that solves the problem, built and timed here, is faster.
void ExpectNeverWorseThanNamed(const SynthesisProblem& problem, const Synthesis& found) {
  EXPECT_GE(found.timing.makespan, found.bound);
  const absl::StatusOr<ScheduleTiming> timing = CheckSolution(problem, found.schedule);
  ASSERT_TRUE(timing.ok()) << timing.status();
  EXPECT_EQ(timing->makespan, found.timing.makespan);
  for (const ScheduleEntry& entry : Schedules()) {
    const absl::StatusOr<PipelineSchedule> named =
        BuildSchedule(entry, {.ranks = problem.ranks, .microbatches = problem.microbatches});
    if (!named.ok()) continue;
    const absl::StatusOr<ScheduleTiming> its = CheckSolution(problem, *named);
    if (its.ok()) {
      EXPECT_LE(found.timing.makespan, its->makespan) << entry.name;
    }
  }
  for (const NamedSolution& named : found.named) EXPECT_LE(found.timing.makespan, named.makespan) << named.name;
}

TEST(Synthesize, IsNeverWorseThanNamed) {
  std::mt19937_64 random(5);
  int two_lanes = 0;
  for (int i = 0; i < 60; ++i) {
    SynthesisProblem problem = RandomSmallProblem(random, 4, 8);
    problem.placements = KnownPlacements(problem.ranks, problem.stages(), /*replicas=*/i % 2 == 0);
    // Let whole backwards take less, or more, than their halves.
    if (i % 3 != 0) {
      for (StageCosts& costs : problem.costs) costs.backward += i % 3 == 1 ? 2 : -std::min<int64_t>(costs.backward, 1);
    }
    const absl::StatusOr<Synthesis> found =
        Synthesize(problem, {.lists = 40, .starts = 2, .iterations = 50, .exact_slots = 0});
    ASSERT_TRUE(found.ok()) << found.status();
    ExpectNeverWorseThanNamed(problem, *found);
    two_lanes += found->schedule.lanes == 2;
  }
  EXPECT_GT(two_lanes, 0);
}

// With Z3, small problems are solved to the end; without exact search, list scheduling and tabu search alone find
// nearly all of the optima.
TEST(Synthesize, FindsTheProvenOptimum) {
  if (!HasExactSearch()) GTEST_SKIP() << "built without Z3";
  std::mt19937_64 random(7);
  int proven = 0, missed = 0;
  for (int i = 0; i < WEFT_CASES; ++i) {
    const SynthesisProblem problem = RandomSmallProblem(random, 4, 6);
    const absl::StatusOr<Synthesis> exact = Synthesize(problem);
    ASSERT_TRUE(exact.ok()) << exact.status();
    ExpectNeverWorseThanNamed(problem, *exact);
    const absl::StatusOr<Synthesis> heuristic = Synthesize(problem, {.exact_slots = 0});
    ASSERT_TRUE(heuristic.ok()) << heuristic.status();
    EXPECT_LE(heuristic->bound, exact->timing.makespan);
    EXPECT_GE(heuristic->timing.makespan, exact->bound);
    if (!exact->optimal()) continue;
    ++proven;
    missed += heuristic->timing.makespan != exact->timing.makespan;
  }
  std::printf("%d of %d proven; without exact search %d of these missed\n", proven, WEFT_CASES, missed);
  EXPECT_GE(proven * 100, WEFT_CASES * 95);
  EXPECT_LE(missed * 100, proven * 3);
}

TEST(Synthesize, IsDeterministic) {
  const SynthesisProblem problem = UnevenCases()[2].problem;
  const SynthesisOptions options = {.lists = 50, .starts = 2, .iterations = 200};
  EXPECT_EQ(Synthesize(problem, options)->schedule.order, Synthesize(problem, options)->schedule.order);
}

// Chimera's idea for an expensive last stage: with a replica of each stage, the first rank shares its work.
TEST(Synthesize, UsesReplicasIfAllowed) {
  SynthesisProblem problem = {.ranks = 4, .microbatches = 8, .costs = {{1, 2}, {1, 2}, {1, 2}, {3, 6}}, .split = false};
  problem.placements = KnownPlacements(4, 4, /*replicas=*/false);
  const int64_t one_copy = Synthesize(problem)->timing.makespan;
  EXPECT_EQ(one_copy, 3 + 8 * 9 + 6);
  problem.placements = KnownPlacements(4, 4, /*replicas=*/true);
  const absl::StatusOr<Synthesis> two = Synthesize(problem);
  EXPECT_EQ(two->schedule.lanes, 2);
  EXPECT_LT(two->timing.makespan, one_copy * 7 / 10);
}

// The figures of docs/synthesis.md.
TEST(Synthesize, UnevenCases) {
  std::vector<double> gains, gaps;
  int optimal = 0, named_optimal = 0;
  for (const UnevenCase& c : UnevenCases()) {
    const absl::StatusOr<Synthesis> found = Synthesize(c.problem);
    ASSERT_TRUE(found.ok()) << found.status();
    ExpectNeverWorseThanNamed(c.problem, *found);
    const NamedSolution& named = found->named[0];
    gains.push_back(1 - static_cast<double>(found->timing.makespan) / static_cast<double>(named.makespan));
    gaps.push_back(found->gap());
    optimal += found->optimal();
    named_optimal += named.makespan == found->bound;
    std::printf("%-27s P %d N %2d stages %d: %s %lld, found %lld (%s), bound %lld: gain %.2f %%, gap %.2f %%\n",
                c.name.c_str(), c.problem.ranks, c.problem.microbatches, c.problem.stages(), named.name.c_str(),
                static_cast<long long>(named.makespan), static_cast<long long>(found->timing.makespan),
                found->method.c_str(), static_cast<long long>(found->bound), 100 * gains.back(), 100 * gaps.back());
  }
  std::sort(gains.begin(), gains.end());
  std::printf("gain: median %.2f %%, most %.2f %%; %d optimal, of which %d by a named schedule; largest gap %.2f %%\n",
              50 * (gains[14] + gains[15]), 100 * gains.back(), optimal, named_optimal,
              100 * *std::max_element(gaps.begin(), gaps.end()));
  EXPECT_GE(optimal, 22);
  EXPECT_GT(gains.back(), 0.04);
  EXPECT_LT(*std::max_element(gaps.begin(), gaps.end()), 0.02);
}

TEST(Synthesize, RefusesAWrongProblem) { EXPECT_FALSE(Synthesize({.ranks = 2}).ok()); }

}  // namespace
}  // namespace weft
