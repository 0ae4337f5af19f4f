#include "schedules/pipeline/lowering.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/pytorch_csv.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string Lowered(absl::string_view text, const LoweringOptions& options = {}) {
  const absl::StatusOr<ActionLists> lists = Lower(ParsePytorchCsv(text)->lists, options);
  return lists.ok() ? *FormatPytorchCsv(*lists) : std::string(lists.status().message());
}

constexpr LoweringOptions kNothing = {
    .merge_backwards = false, .unsharded_stages = 0, .reduce_gradients = false, .transfers = false};

TEST(Lower, OneFOneB) {
  EXPECT_EQ(Lowered("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"),
            "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
            "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n");
}

TEST(Lower, MergesOnlyNeighborsOfOneMicrobatch) {
  LoweringOptions options = kNothing;
  options.merge_backwards = true;
  EXPECT_EQ(Lowered("0F0,0F1,0I0,0W0,0I1,0W1\n", options), "0F0,0F1,0B0,0B1\n");
  EXPECT_EQ(Lowered("0F0,0F1,0I0,0I1,0W0,0W1\n", options), "0F0,0F1,0I0,0I1,0W0,0W1\n");
  EXPECT_EQ(Lowered("0F0,1F0,1I0,0I0,1W0,0W0\n", options), "0F0,1F0,1I0,0I0,1W0,0W0\n");
}

TEST(Lower, StagesAhead) {
  const std::string four = "0F0,1F0,2F0,3F0,3B0,2B0,1B0,0B0\n";
  LoweringOptions options = kNothing;
  options.unsharded_stages = 1;
  EXPECT_EQ(Lowered(four, options),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,2UNSHARD,2F0,2RESHARD,3UNSHARD,3F0,3B0,3RESHARD,2UNSHARD,2B0,"
            "2RESHARD,1UNSHARD,1B0,1RESHARD,0UNSHARD,0B0,0RESHARD\n");
  options.unsharded_stages = 2;
  EXPECT_EQ(Lowered(four, options),
            "0UNSHARD,1UNSHARD,0F0,0RESHARD,2UNSHARD,1F0,1RESHARD,3UNSHARD,2F0,3F0,3B0,3RESHARD,1UNSHARD,2B0,2RESHARD,"
            "0UNSHARD,1B0,1RESHARD,0B0,0RESHARD\n");
  options.unsharded_stages = 4;
  EXPECT_EQ(
      Lowered(four, options),
      "0UNSHARD,1UNSHARD,2UNSHARD,3UNSHARD,0F0,1F0,2F0,3F0,3B0,3RESHARD,2B0,2RESHARD,1B0,1RESHARD,0B0,0RESHARD\n");
}

// Both halves of a pair are needed at once, even if only one unsharded stage is allowed.
TEST(Lower, APairUnshardsBothItsStages) {
  LoweringOptions options = kNothing;
  options.unsharded_stages = 1;
  EXPECT_EQ(Lowered("0F0,1F0,1B0,(0F1;0B0)OVERLAP_F_B,1F1,1B1,0B1\n", options),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1RESHARD,0UNSHARD,(0F1;0B0)OVERLAP_F_B,0RESHARD,1UNSHARD,1F1,1B1,"
            "1RESHARD,0UNSHARD,0B1,0RESHARD\n");
  EXPECT_EQ(Lowered("0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,(0F2;1B1)OVERLAP_F_B,1F2,1B2,0B0,0B1,0B2\n", options),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,0UNSHARD,0F1,0RESHARD,1UNSHARD,(1F1;1B0)OVERLAP_F_B,0UNSHARD,"
            "(0F2;1B1)OVERLAP_F_B,0RESHARD,1F2,1B2,1RESHARD,0UNSHARD,0B0,0B1,0B2,0RESHARD\n");
}

TEST(Lower, ReduceGradFollowsTheLastGradient) {
  LoweringOptions options = kNothing;
  options.reduce_gradients = true;
  EXPECT_EQ(Lowered("0F0,0F1,0I0,0W0,0B1\n", options), "0F0,0F1,0I0,0W0,0B1,0REDUCE_GRAD\n");
  EXPECT_EQ(Lowered("0F0,0F1,1F0,1B0,(1F1;0B0)OVERLAP_F_B,1I1,0I1,1W1,0W1\n", options),
            "0F0,0F1,1F0,1B0,(1F1;0B0)OVERLAP_F_B,1I1,0I1,1W1,1REDUCE_GRAD,0W1,0REDUCE_GRAD\n");
}

TEST(Lower, NamesWhatWaits) {
  ActionLists lists = ParsePytorchCsv("0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n")->lists;
  std::swap(lists.order[1][0], lists.order[1][2]);
  EXPECT_EQ(Lower(lists).status().message(),
            "deadlock: these ranks wait for each other: rank 0 for the input of 0B0, rank 1 for the input of 1F1");
}

// Rank 0 runs 0F0 and 0SEND_F0. Rank 1 comes later in the round, so it receives in the round of the SEND.
TEST(CountUnitSteps, ByHand) {
  auto steps = [](absl::string_view text) {
    return *CountUnitSteps(*Lower(ParsePytorchCsv(text)->lists,
                                  {.merge_backwards = false, .unsharded_stages = 0, .reduce_gradients = false}));
  };
  EXPECT_EQ(steps("0F0,0B0\n"), 2);
  // Rounds: F0 | SEND_F0, RECV_F0 | 1F0 | 1B0 | SEND_B0, in the second pass RECV_B0 | 0B0.
  EXPECT_EQ(steps("0F0,0B0\n1F0,1B0\n"), 6);
}

TEST(CountUnitSteps, NamesWhatWaits) {
  const ActionLists lists = ParsePytorchCsv("0F0,0B0\n1F0,1B0\n")->lists;
  EXPECT_THAT(std::string(CountUnitSteps(lists).status().message()), HasSubstr("rank 1 for the input of 1F0"));
}

}  // namespace
}  // namespace weft
