#include "schedules/synthesis/synthesize.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/synthesis/bound.h"
#include "schedules/synthesis/uneven_cases_testing.h"

namespace weft {
namespace {

TEST(Synthesize, IsNeverWorseThanNamed) {
  std::mt19937_64 random(7);
  int optimal = 0;
  for (int i = 0; i < 200; ++i) {
    const SynthesisProblem problem = RandomSmallProblem(random, 4, 6);
    const absl::StatusOr<Synthesis> found = Synthesize(problem, {.exact_work = 100'000'000});
    const absl::StatusOr<Synthesis> heuristic = Synthesize(problem, {.exact_slots = 0});
    if (heuristic->timing.makespan != found->timing.makespan) std::printf("%d heuristic %ld\n", i, heuristic->timing.makespan);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_GE(found->timing.makespan, found->bound);
    optimal += found->optimal();
    if (!found->optimal())
      std::printf("%d: P %d N %d S %d split %d cap %ld bound %ld found %ld\n", i, problem.ranks, problem.microbatches,
                  problem.stages(), problem.split, problem.memory_cap.value_or(-1), found->bound,
                  found->timing.makespan);
    if (found->method == "exact search") std::printf("%d exact improved\n", i);
    std::fflush(stdout);
    if (!found->named.empty()) {
      EXPECT_LE(found->timing.makespan, found->named[0].makespan);
    }
  }
  std::printf("optimal by bound %d\n", optimal);
}

TEST(Synthesize, UnevenCases) {
  std::vector<double> gains;
  for (const UnevenCase& c : UnevenCases()) {
    const absl::StatusOr<Synthesis> found = Synthesize(c.problem);
    ASSERT_TRUE(found.ok()) << found.status();
    const double named = found->named[0].makespan;
    gains.push_back(1 - found->timing.makespan / named);
    std::printf("%-30s P %d N %d S %d bound %ld found %ld (%s) named %ld %s gain %.2f %% gap %.2f %%\n", c.name.c_str(),
                c.problem.ranks, c.problem.microbatches, c.problem.stages(), found->bound, found->timing.makespan,
                found->method.c_str(), found->named[0].makespan, found->named[0].name.c_str(), 100 * gains.back(),
                100 * found->gap());
    std::fflush(stdout);
  }
  std::sort(gains.begin(), gains.end());
  std::printf("median gain %.2f %%\n", 50 * (gains[14] + gains[15]));
}

}  // namespace
}  // namespace weft
