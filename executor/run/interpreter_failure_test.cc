// Tests runs that end early: a rank fails, a rank's partner is missing, or a rank is asked to stop.
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/interpreter/interpreter.h"
#include "executor/testing/two_stages_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

TEST(InterpreterFailureTest, AFailureNamesRankAndActionAndStopsAll) {
  const Program program = TwoStages(2);
  const auto ranks = RunRanks(program, 50, {}, [](int rank, TinyBackend& backend) {
    if (rank != 3) return;
    backend.before = [](const Step& step, const StepContext& context) {
      return context.step == 14 && step.name() == "double" && context.global_microbatch == 3
                 ? absl::DataLossError("bad sector")
                 : absl::OkStatus();
    };
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ranks->ran[rank].status().message(), "rank 3, step 14, action 3 'F1', kernel 'double': bad sector")
        << rank;
  }
}

TEST(InterpreterFailureTest, AnInjectedFailureHitsAnyKindOfAction) {
  const Program program = TwoStages(1);
  for (int action : {0, 3, 5, 8}) {
    InterpreterOptions options;
    options.failure = InjectedFailure{.rank = 0, .repetition = 1, .action = action};
    const auto ranks = RunRanks(program, 5, options);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_THAT(std::string(ranks->ran[rank].status().message()),
                  HasSubstr(absl::StrCat("rank 0, step 11, action ", action, " '")));
    }
  }
}

TEST(InterpreterFailureTest, ALossThatIsNotFiniteStopsTheRun) {
  const Program program = TwoStages(1);
  const auto infinite = [](int rank, TinyBackend& backend) {
    if (rank != 0) return;
    backend.before = [](const Step& step, const StepContext& context) {
      if (context.step == 12 && step.name() == "fill") {
        const_cast<Step&>(step).mutable_attributes()->set_value(std::numeric_limits<double>::infinity());
      }
      return absl::OkStatus();
    };
  };
  Program copy = program;
  EXPECT_EQ(RunRanks(copy, 5, {}, infinite)->ran[1].status().message(),
            "rank 0, step 12, action 8 'AR': the loss is not finite (inf)");
  copy = program;
  InterpreterOptions options;
  options.check_finite = false;
  EXPECT_TRUE(RunRanks(copy, 5, options, infinite)->ran[1].ok());
}

TEST(InterpreterFailureTest, AMissingPartnerIsNamedAfterTheTimeout) {
  Program program = TwoStages(1);
  Template* second = program.mutable_templates(1);
  second->mutable_body()->RemoveLast();
  second->mutable_body(3)->mutable_deps()->RemoveLast();
  InterpreterOptions options;
  options.timeout = std::chrono::milliseconds(300);
  const auto ranks = RunRanks(program, 1, options);
  EXPECT_EQ(
      ranks->ran[0].status().message(),
      "rank 0, step 10, action 5 'R1' has waited for rank 1 on 'recv pipe=1 from_loss lane 0' for more than 0.3 s");
}

TEST(InterpreterFailureTest, AllRanksStopAfterTheSameRepetition) {
  for (bool barrier : {false, true}) {
    for (int asked : {0, 1, 3}) {
      Program program = TwoStages(2);
      program.set_step_barrier(barrier);
      std::atomic<bool> stop{false};
      InterpreterOptions options;
      options.stop = &stop;
      const auto ranks = RunRanks(program, 1000, options, [&](int rank, TinyBackend& backend) {
        if (rank != asked) return;
        backend.before = [&](const Step&, const StepContext& context) {
          if (context.step == 15) stop = true;
          return absl::OkStatus();
        };
      });
      const int64_t ran = *ranks->ran[0];
      // All ranks stop after the step in which one rank was asked to stop.
      EXPECT_EQ(ran, 6);
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(*ranks->ran[rank], ran);
        EXPECT_EQ(ranks->interpreters[rank]->results().size(), static_cast<size_t>(ran));
        EXPECT_EQ(ranks->interpreters[rank]->results().back().step, 9 + ran);
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec
