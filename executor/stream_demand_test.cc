#include "executor/stream_demand.h"

#include "executor/test_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(StreamDemandTest, CountsEdgesDirectionsAndForks) {
  const Program program = TestPipelineProgram({.ranks = 4});
  // The second of four: from and to both neighbours.
  EXPECT_EQ(DemandOf(program, 1, PER_EDGE).transfers, 4);
  EXPECT_EQ(DemandOf(program, 1, PER_DIRECTION).transfers, 2);
  EXPECT_EQ(DemandOf(program, 1, SHARED).transfers, 1);
  EXPECT_EQ(DemandOf(program, 1, SHARED).forks, 0);
  EXPECT_EQ(DemandOf(program, 0, PER_EDGE).transfers, 2);
  EXPECT_EQ(DemandOf(program, 1, PER_EDGE).total(), 5);
  // Members of a group that share a stream are apart all the same.
  const Program grouped = TestPipelineProgram({.ranks = 4, .streams = SHARED, .groups = true});
  EXPECT_EQ(DemandOf(grouped, 1, PER_EDGE).forks, 0);
  EXPECT_EQ(DemandOf(grouped, 1, SHARED).transfers, 1);
  EXPECT_EQ(DemandOf(grouped, 1, SHARED).forks, 3);
}

TEST(StreamDemandTest, SharesOnlyWhereItMustAndIsProven) {
  const Program program = TestPipelineProgram({.ranks = 4});
  EXPECT_EQ(*FitTransferStreams(program, 1, 5, 32), PER_EDGE);
  EXPECT_EQ(*FitTransferStreams(program, 1, 4, 32), PER_DIRECTION);
  EXPECT_EQ(*FitTransferStreams(program, 1, 3, 32), PER_DIRECTION);
  // On one stream the sends of neighbours to each other would wait for each other.
  const auto none = FitTransferStreams(program, 1, 2, 6);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(none.status().message()),
      HasSubstr("rank 1: the program works on 5 (1 of compute, 0 of copies, 0 of communicators, 4 of transfers) "
                "streams of the device, and of its 6 hardware queues (CUDA_DEVICE_MAX_CONNECTIONS, at most 32) "
                "2 are free for them"));
  // The ends of the pipeline have fewer.
  EXPECT_EQ(*FitTransferStreams(program, 0, 3, 32), PER_EDGE);
}

}  // namespace
}  // namespace weft
