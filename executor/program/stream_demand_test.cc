#include "executor/program/stream_demand.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "executor/testing/test_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/verify.h"

namespace weft::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StreamDemandTest, CountsEdgesDirectionsAndForks) {
  const Program program = TestPipelineProgram({.ranks = 4});
  // The second of four ranks sends to both neighbors and receives from both.
  EXPECT_EQ(DemandOf(program, 1, PER_EDGE).transfers, 4);
  EXPECT_EQ(DemandOf(program, 1, PER_DIRECTION).transfers, 2);
  EXPECT_EQ(DemandOf(program, 1, SHARED).transfers, 1);
  EXPECT_EQ(DemandOf(program, 1, SHARED).forks, 0);
  EXPECT_EQ(DemandOf(program, 0, PER_EDGE).transfers, 2);
  EXPECT_EQ(DemandOf(program, 1, PER_EDGE).total(), 5);
  // Transfers of one group that share a program stream still need a stream each.
  const Program grouped = TestPipelineProgram({.ranks = 4, .streams = SHARED, .groups = true});
  EXPECT_EQ(DemandOf(grouped, 1, PER_EDGE).forks, 0);
  EXPECT_EQ(DemandOf(grouped, 1, SHARED).transfers, 1);
  EXPECT_EQ(DemandOf(grouped, 1, SHARED).forks, 3);
}

// Returns 1F1B over three ranks, which is proven with a stream for each edge.
Program Pipeline() {
  return ScheduleProgram(
      {.order = {"F0.0 F0.1 F0.2 B0.0 B0.1 B0.2", "F1.0 F1.1 B1.0 F1.2 B1.1 B1.2", "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2"},
       .placement = {{0, 1, 2}},
       .lane = {0, 0, 0},
       .tied = false});
}

TEST(StreamDemandTest, SharesOnlyWhereItMustAndIsProven) {
  const Program program = Pipeline();
  ASSERT_TRUE(VerifyProgram(program).ok()) << VerifyProgram(program);
  const int all = DemandOf(program, 1, PER_EDGE).total();
  EXPECT_EQ(DemandOf(program, 1, PER_EDGE).transfers, 4);
  EXPECT_EQ(*FitTransferStreams(program, 1, all, 32), PER_EDGE);
  EXPECT_EQ(*FitTransferStreams(program, 1, all - 1, 32), PER_DIRECTION);
  EXPECT_EQ(*FitTransferStreams(program, 1, all - 2, 32), PER_DIRECTION);
  // If all transfers share one stream, two neighbors that send to each other wait for each other. So nothing fits.
  EXPECT_EQ(DemandOf(program, 1, SHARED).total(), all - 3);
  const auto none = FitTransferStreams(program, 1, all - 3, 6);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(none.status().message()),
      AllOf(HasSubstr(absl::StrCat("rank 1: the program needs ", all, " streams (1 for compute, 0 for copies, ")),
            HasSubstr("of the device's 6 hardware queues (CUDA_DEVICE_MAX_CONNECTIONS, at most 32) are free"),
            HasSubstr(absl::StrCat("4 for transfers), but only ", all - 3, " of "))));
  // The ends of the pipeline need fewer streams.
  EXPECT_EQ(*FitTransferStreams(program, 0, all - 2, 32), PER_EDGE);
}

}  // namespace
}  // namespace weft::exec
