#include "schedules/synthesis/problem.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SynthesisProblem Simple() {
  SynthesisProblem problem = {.ranks = 2, .microbatches = 3, .costs = {{1, 2, 1, 1}, {2, 4, 2, 2}}};
  problem.placements = KnownPlacements(2, 2, /*replicas=*/false);
  return problem;
}

std::string Refusal(const SynthesisProblem& problem) { return std::string(CheckProblem(problem).message()); }

TEST(KnownPlacements, AreLinearLoopedAndSnake) {
  EXPECT_THAT(KnownPlacements(2, 2, false), ElementsAre(Placement{{0, 1}}));
  EXPECT_THAT(KnownPlacements(2, 4, false), ElementsAre(Placement{{0, 1, 0, 1}}, Placement{{0, 1, 1, 0}}));
  EXPECT_THAT(KnownPlacements(2, 2, true), ElementsAre(Placement{{0, 1}}, Placement{{0, 1}, {1, 0}}));
  // An odd number of ranks would have a rank that the two lanes share.
  EXPECT_EQ(KnownPlacements(3, 3, true).size(), 1);
  EXPECT_TRUE(KnownPlacements(2, 3, false).empty());
}

TEST(CheckProblem, NamesTheWrongField) {
  EXPECT_EQ(Refusal(Simple()), "");
  SynthesisProblem problem = Simple();
  problem.microbatches = 0;
  EXPECT_THAT(Refusal(problem), HasSubstr("microbatches = 0; allowed: 1 to "));
  problem = Simple();
  problem.costs[1].forward = -1;
  EXPECT_THAT(Refusal(problem), HasSubstr("forward = -1; allowed: 0 to "));
  problem = Simple();
  problem.costs[0].backward_weight = -1;
  EXPECT_THAT(Refusal(problem), HasSubstr("weight = -1"));
  // If backwards run whole, the costs of halves do not matter.
  problem.split = false;
  EXPECT_EQ(Refusal(problem), "");
  problem = Simple();
  problem.p2p = -1;
  EXPECT_THAT(Refusal(problem), HasSubstr("p2p = -1"));
  problem = Simple();
  problem.placements.clear();
  EXPECT_THAT(Refusal(problem), HasSubstr("no placement"));
  problem = Simple();
  problem.placements[0][0][1] = 2;
  EXPECT_THAT(Refusal(problem), HasSubstr("a placement's rank = 2; allowed: 0 to 1"));
  problem = Simple();
  problem.memory_cap = 5;
  EXPECT_THAT(Refusal(problem), HasSubstr("activations of 0 stages"));
  problem.activations = {1, 6};
  EXPECT_THAT(Refusal(problem), HasSubstr("the memory cap is 5, but rank 1 needs 6"));
  problem.costs.assign(1 << 20, {1, 2, 1, 1});
  EXPECT_THAT(Refusal(problem), HasSubstr("microbatches = 3"));
}

TEST(CheckSolution, RefusesWhatTheProblemDoesNotAllow) {
  const auto why = [](const SynthesisProblem& problem, const PipelineSchedule& schedule) {
    return std::string(CheckSolution(problem, schedule).status().message());
  };
  const ScheduleParams params = {.ranks = 2, .microbatches = 3};
  const PipelineSchedule whole = *BuildSchedule(**FindSchedule("gpipe"), params);
  SynthesisProblem problem = Simple();
  ASSERT_TRUE(CheckSolution(problem, whole).ok());
  // Rank 1 computes without a pause after the first forward and before the last backward of stage 0.
  EXPECT_EQ(CheckSolution(problem, whole)->makespan, 1 + 3 * (2 + 4) + 2);

  problem.memory_cap = 4;
  problem.activations = {1, 2};
  EXPECT_THAT(PeakMemory(whole, problem.activations), ElementsAre(3, 6));
  EXPECT_THAT(why(problem, whole), HasSubstr("rank 1 holds 6; the memory cap is 4"));
  problem = Simple();
  problem.split = false;
  EXPECT_THAT(why(problem, *BuildSchedule(**FindSchedule("zb-h1"), params)), HasSubstr("a backward in halves"));
  EXPECT_THAT(why(problem, *BuildSchedule(**FindSchedule("axonn"), params)), HasSubstr("not static"));
  EXPECT_THAT(why(problem, *BuildSchedule(**FindSchedule("gpipe"), {.ranks = 3, .microbatches = 3})),
              HasSubstr("another number of ranks"));
  problem.placements = {{{1, 0}}};
  EXPECT_THAT(why(problem, whole), HasSubstr("a placement that is not allowed"));
  PipelineSchedule wrong = whole;
  wrong.order[0].pop_back();
  EXPECT_THAT(why(Simple(), wrong), HasSubstr("missing"));
  wrong = whole;
  std::swap(wrong.order[1][3], wrong.order[1][4]);
  std::swap(wrong.order[0][3], wrong.order[0][4]);
  EXPECT_THAT(why(Simple(), wrong), HasSubstr("ascending"));
}

}  // namespace
}  // namespace weft
