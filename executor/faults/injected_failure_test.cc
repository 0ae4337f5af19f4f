#include "executor/faults/injected_failure.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const InjectedFailure& failure, int64_t repetitions = 4, int64_t check_replicas = 0) {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(mesh { axes { name: "pipe" size: 2 } }
           templates {
             name: "first"
             pins { axis: "pipe" index: 0 }
             prologue { id: 9 kind: FORWARD }
             body { id: 0 kind: FORWARD }
             body { id: 4 kind: BACKWARD }
           }
           templates {
             name: "second"
             pins { axis: "pipe" index: 1 }
             body { id: 7 kind: FORWARD }
           })pb",
      &program));
  return std::string(CheckInjectedFailure(program, failure, repetitions, repetitions, check_replicas).message());
}

TEST(InjectedFailure, IsOfAnActionOfTheRank) {
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 3, .action = 4}), "");
  EXPECT_EQ(Refusal({.rank = 1, .repetition = 0, .action = 7}), "");
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 0, .action = 9}), "");
  // This action belongs to another rank.
  EXPECT_EQ(
      Refusal({.rank = 0, .repetition = 1, .action = 7}),
      "--inject-failure: action 7: rank 0 has no action of that number (weft inspect PROGRAM --rank 0 lists them); "
      "nearest valid: 4");
  // This action runs once, before the first step.
  EXPECT_THAT(Refusal({.rank = 0, .repetition = 1, .action = 9}), HasSubstr("nearest valid: 4"));
  EXPECT_THAT(Refusal({.rank = 0, .repetition = 0, .action = 2}), HasSubstr("nearest valid: 0"));
  EXPECT_THAT(Refusal({.rank = 1, .repetition = 0, .action = INT32_MAX}), HasSubstr("nearest valid: 7"));
}

TEST(InjectedFailure, IsOfAStepOfTheRun) {
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 4, .action = 4}),
            "--inject-failure: step 4: this run has 4 steps, counted from 0; nearest valid: 3");
  EXPECT_THAT(Refusal({.rank = 0, .repetition = INT64_MAX, .action = 4}), HasSubstr("nearest valid: 3"));
}

TEST(InjectedFailure, AFlippedBitHasToBeLookedFor) {
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 3, .action = 0, .flip = true}, 4, 2), "");
  EXPECT_THAT(Refusal({.rank = 0, .repetition = 3, .action = 0, .flip = true}),
              HasSubstr("flip needs --check-replicas N"));
  // The last comparison can still find it.
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 4, .action = 0, .flip = true}, 5, 2), "");
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 5, .action = 0, .flip = true}, 5, 2),
            "--inject-failure: step 5: replicas are compared for the last time after step 4; nearest valid: 4");
  EXPECT_EQ(Refusal({.rank = 0, .repetition = 1, .action = 0, .flip = true}, 5, 6),
            "--inject-failure: --check-replicas=6 compares nothing in 5 steps; nearest valid: 5");
}

TEST(InjectedFailure, IsOfARankOfTheProgram) {
  EXPECT_EQ(Refusal({.rank = 2, .repetition = 0, .action = 0}),
            "--inject-failure: rank 2: the last rank of this program is 1");
  EXPECT_THAT(Refusal({.rank = INT32_MAX, .repetition = 0, .action = 0, .flip = true}, 4, 2),
              HasSubstr("the last rank of this program is 1"));
}

}  // namespace
}  // namespace weft::exec
