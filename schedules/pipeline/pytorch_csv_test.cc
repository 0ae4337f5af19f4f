#include "schedules/pipeline/pytorch_csv.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kComputeOnly[] = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
constexpr char kComputeComms[] =
    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
    "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n";

std::string Error(absl::string_view text, const CsvOptions& options = {}) {
  return std::string(ParsePytorchCsv(text, options).status().message());
}

std::string Kinds(absl::string_view text, const CsvOptions& options = {}) {
  const absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(text, options);
  if (!read.ok()) return std::string(read.status().message());
  std::string kinds;
  for (const std::vector<Slot>& order : read->schedule.order) {
    for (const Slot& slot : order) kinds += "FBIW"[static_cast<int>(slot.kind)];
  }
  return kinds;
}

TEST(ParsePytorchCsv, ComputeOnly) {
  const absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(kComputeOnly);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->microbatches, 2);
  EXPECT_EQ(read->schedule.stages, 2);
  EXPECT_EQ(read->options.form, CsvForm::kComputeOnly);
  EXPECT_EQ(read->options.dialect, CsvDialect::kTorch);
  EXPECT_THAT(read->schedule.placement, ElementsAre(ElementsAre(0, 1)));
  EXPECT_EQ(read->schedule.order[1][2], (Slot{.kind = SlotKind::kForward, .lane = 0, .stage = 1, .microbatch = 1}));
  EXPECT_EQ(*FormatPytorchCsv(read->lists), kComputeOnly);
}

TEST(ParsePytorchCsv, ComputeComms) {
  const absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(kComputeComms);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->options.form, CsvForm::kComputeComms);
  EXPECT_EQ(read->lists.order[0].size(), 11);
  EXPECT_EQ(read->schedule.order[0].size(), 4);
  EXPECT_EQ(*FormatPytorchCsv(read->lists), kComputeComms);
}

TEST(ParsePytorchCsv, LineEndsSpacesAndBubbles) {
  EXPECT_EQ(Kinds("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n"), "FFBBFBFB");
  EXPECT_EQ(Kinds("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"), "FFBBFBFB");
  EXPECT_EQ(Kinds(" 0F0 ,0F1,,\"\",0B0,0B1\n,1F0,1B0,1F1,1B1,\n"), "FFBBFBFB");
}

// The file determines the placement of stages: here a V.
TEST(ParsePytorchCsv, PlacementAndPairs) {
  constexpr char kText[] =
      "0F0,3F0,3I0,3W0,0F1,(3F1;0B0)OVERLAP_F_B,3B1,0I1,0W1\n"
      "1F0,2F0,2B0,1F1,1B0,2F1,2B1,1B1\n";
  const absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(kText);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->schedule.placement, ElementsAre(ElementsAre(0, 1, 1, 0)));
  EXPECT_TRUE(read->schedule.order[0][5].paired);
  EXPECT_FALSE(read->schedule.order[0][6].paired);
  EXPECT_EQ(*FormatPytorchCsv(read->lists), kText);
}

TEST(ParsePytorchCsv, Dialects) {
  // B next to W is an input gradient in 2.5, and also in late 2024. A B alone is the whole backward in 2.5.
  EXPECT_EQ(Kinds("0F0,0B0,0W0\n"), "FIW");
  EXPECT_EQ(Kinds("0F0,0B0\n"), "FB");
  EXPECT_EQ(Kinds("0F0,0B0\n", {.dialect = CsvDialect::kTorch25}), "FB");
  EXPECT_EQ(Kinds("0F0,0BW0\n"), "FB");
  EXPECT_EQ(Kinds("0F0,0F1,0BW0,0B1,0W1\n"), "FFBIW");
  EXPECT_EQ(Kinds("0F0,0F1,0B0,0I1,0W1\n"), "FFBIW");
  EXPECT_EQ(ParsePytorchCsv("0F0,0BW0\n")->options.dialect, CsvDialect::kLate2024);
  EXPECT_EQ(ParsePytorchCsv("0F0,0B0,0W0\n")->options.dialect, CsvDialect::kTorch25);

  EXPECT_EQ(Error("0F0,0BW0\n", {.dialect = CsvDialect::kTorch}),
            "line 1 (rank 0), cell 2: dialect torch has no BW; allowed: F, I, W, B; nearest valid: dialect late-2024");
  EXPECT_THAT(Error("0F0,0I0,0W0\n", {.dialect = CsvDialect::kTorch25}),
              HasSubstr("cell 2: dialect torch-2.5 has no I"));
  EXPECT_THAT(Error("0F0,0F1,0I0,0W0,0BW1\n"), HasSubstr("no dialect has both"));
  EXPECT_THAT(Error("0F0,0B0,0W0\n", {.dialect = CsvDialect::kTorch}),
              HasSubstr("line 1 (rank 0), cell 3: 0W0: comes before its input gradient"));
  EXPECT_THAT(Error("0F0,0B0\n", {.dialect = CsvDialect::kLate2024}), HasSubstr("lacks the weight gradient (W)"));
}

TEST(ParsePytorchCsv, NamesTheCell) {
  EXPECT_EQ(Error("0F0,0B0\n1F0,1X0\n"),
            "line 2 (rank 1), cell 2: unknown action 'X' in '1X0'; known: F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
            "UNSHARD, RESHARD, REDUCE_GRAD, BW");
  EXPECT_THAT(Error("0F0,0SEND_G0\n"), HasSubstr("unknown action 'SEND_G' in '0SEND_G0'; nearest: 'SEND_F'"));
  EXPECT_EQ(Error("0F0,0F3xyz\n"),
            "line 1 (rank 0), cell 2: '0F3xyz' has 'xyz' after the action '0F3'; cells are separated by commas");
  EXPECT_THAT(Error("0F0 0B0\n"), HasSubstr("cell 1: '0F0 0B0' has ' 0B0' after the action '0F0'"));
  EXPECT_THAT(Error("F0_s1\n"), HasSubstr("cell 1: cannot read 'F0_s1'; expected STAGE ACTION MICROBATCH"));
  EXPECT_THAT(Error("0F\n"), HasSubstr("'0F' lacks its microbatch"));
  EXPECT_THAT(Error("0UNSHARD0,0F0,0B0\n"), HasSubstr("'0UNSHARD0' takes no microbatch"));
  EXPECT_THAT(Error("99999999999F0\n"), HasSubstr("stage '99999999999'; allowed: 0 to "));
  EXPECT_THAT(Error("0F99999999999\n"), HasSubstr("microbatch '99999999999'"));
  EXPECT_THAT(Error("0F0,(0F1;0B0\n"), HasSubstr("lacks its ')'"));
  EXPECT_THAT(Error("0F0,(0F1;0B0)OVERLAP\n"), HasSubstr("'OVERLAP' after ')'; allowed: OVERLAP_F_B"));
  EXPECT_THAT(Error("0F0,(0F1)OVERLAP_F_B\n"), HasSubstr("groups 1; allowed: a forward and a backward"));
  EXPECT_THAT(Error("0F0,(0F1;)OVERLAP_F_B\n"), HasSubstr("groups nothing"));
  EXPECT_THAT(Error("0F0,(0B0;0F1)OVERLAP_F_B\n"), HasSubstr("a forward, then a whole backward"));
}

TEST(ParsePytorchCsv, RefusesWhatIsNoSchedule) {
  EXPECT_EQ(Error("# mine\n0F0,0B0\n"), "line 1 (rank 0), cell 1: '# mine'; PyTorch's CSV has no comments");
  EXPECT_THAT(Error(""), HasSubstr("the file is empty"));
  EXPECT_THAT(Error("\xef\xbb\xbf"
                    "0F0,0B0\n"),
              HasSubstr("byte order mark"));
  EXPECT_THAT(Error("0F0,0B0\n\n"), HasSubstr("line 2 is empty"));
  EXPECT_THAT(Error("0F0,0B0\n,,\n"), HasSubstr("line 2 (rank 1) has no action"));
  // Errors that PyTorch does not notice, because it counts in sets.
  EXPECT_EQ(Error("0F0,0F0,0B0\n"), "line 1 (rank 0), cell 2: 0F0: is also in cell 1");
  EXPECT_THAT(Error("0F0,0B0\n0F1,0B1\n"),
              HasSubstr("line 2 (rank 1), cell 1: 0F1: stage 0 is on rank 0 too (line 1, cell 1)"));
  EXPECT_EQ(Error("0B0,0F0\n"), "line 1 (rank 0), cell 1: 0B0: comes before its forward 0F0");
  EXPECT_THAT(Error("0F0,0B0,2F0,2B0\n"), HasSubstr("cell 3: 2F0: there is no stage 1 in the file"));
  EXPECT_EQ(Error("0F0,0B0,0F1,0B1\n1F0,1B0\n"),
            "line 2 (rank 1): stage 1 lacks the forward of microbatch 1; line 1 (rank 0), cell 3: 0F1: so there are 2 "
            "microbatches");
  EXPECT_THAT(Error("0F0,0F1,0B1\n"), HasSubstr("stage 0 lacks the backward of microbatch 0"));
  EXPECT_THAT(Error("0F0,0I0,0W0,0B0\n"), HasSubstr("cell 2: 0I0: the whole backward is in cell 4 too"));
  EXPECT_THAT(Error("0F16777215,0B0\n"), HasSubstr("comes before its forward"));
  EXPECT_THAT(Error("0F16777215\n"), HasSubstr("lacks the forward of microbatch 0"));
  EXPECT_THAT(Error("16777215F0\n"), HasSubstr("there is no stage 0 in the file"));
  EXPECT_THAT(Error("0UNSHARD\n"), HasSubstr("no forward and no backward"));
  // The last stage's backward must come first.
  EXPECT_THAT(Error("0F0,1F0,0B0,1B0\n"), HasSubstr("comes before"));
  EXPECT_THAT(Error("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"),
              StartsWith("line 1 (rank 0), cell 2: 0B0: deadlock: B s0 m0 (rank 0) waits for "));
}

TEST(ParsePytorchCsv, RefusesTheOtherForm) {
  const CsvOptions compute = {.form = CsvForm::kComputeOnly}, comms = {.form = CsvForm::kComputeComms};
  EXPECT_EQ(Error("0F0,0SEND_F0,0B0\n1F0,1B0\n", compute),
            "line 1 (rank 0), cell 2: SEND_F in a compute_only file; allowed: F, I, W, B; nearest valid: form "
            "compute_comms");
  EXPECT_EQ(Error("0F0,,0B0\n", comms),
            "line 1 (rank 0), cell 2: empty; a compute_comms file has an action in every cell");
  EXPECT_THAT(Error("0UNSHARD,0F0,,0B0\n"), HasSubstr("cell 3: empty"));
  EXPECT_EQ(Kinds("0F0,0B0\n", comms), "FB");
}

TEST(ParsePytorchCsv, TransfersAndWeights) {
  EXPECT_EQ(Kinds("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"), "FBFB");
  EXPECT_EQ(Error("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n"),
            "line 1 (rank 0), cell 3: 0RECV_B0: rank 0, action 3 (0RECV_B0): has no 1SEND_B0 on rank 1");
  EXPECT_THAT(Error("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0RECV_B0,0B0,0B1\n"
                    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"),
              StartsWith("line 2 (rank 1), cell 4: 1SEND_B0: mismatch: "));
  EXPECT_EQ(Error("0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            "line 1 (rank 0), cell 3: 0SEND_F0: is also in cell 2");
  EXPECT_THAT(Error("0UNSHARD,0UNSHARD,0F0,0B0\n"),
              HasSubstr("cell 2: 0UNSHARD: stage 0 is unsharded already, since cell 1"));
  EXPECT_THAT(Error("0UNSHARD,0F0,0RESHARD,0B0\n"), HasSubstr("cell 4: 0B0: stage 0 is not unsharded here"));
  EXPECT_THAT(Error("0RESHARD,0F0,0B0\n"), HasSubstr("stage 0 is not unsharded here"));
  EXPECT_THAT(Error("0F0,0REDUCE_GRAD,0B0\n"), HasSubstr("comes after 0REDUCE_GRAD in cell 2"));
  EXPECT_THAT(Error("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n"), HasSubstr("cell 4: 0REDUCE_GRAD: is also in cell 3"));
  EXPECT_THAT(Error("0UNSHARD,1UNSHARD,0F0,1F0,1B0,0B0,0REDUCE_GRAD\n"),
              HasSubstr("cell 5: 1B0: is the last gradient of stage 1, whose weights are sharded, and no "
                        "1REDUCE_GRAD"));
  EXPECT_TRUE(ParsePytorchCsv("0UNSHARD,0F0,0B0\n").ok());
}

TEST(FormatPytorchCsv, Dialects) {
  const ActionLists split = ParsePytorchCsv("0F0,0F1,0I0,0W0,0I1,0W1\n")->lists;
  EXPECT_EQ(*FormatPytorchCsv(split, CsvDialect::kTorch25), "0F0,0F1,0B0,0W0,0B1,0W1\n");
  EXPECT_EQ(*FormatPytorchCsv(split, CsvDialect::kLate2024), "0F0,0F1,0B0,0W0,0B1,0W1\n");
  const ActionLists mixed = ParsePytorchCsv("0F0,0F1,0B0,0I1,0W1\n")->lists;
  EXPECT_EQ(*FormatPytorchCsv(mixed, CsvDialect::kLate2024), "0F0,0F1,0BW0,0B1,0W1\n");
  EXPECT_EQ(FormatPytorchCsv(mixed, CsvDialect::kTorch25).status().message(),
            "dialect torch-2.5: rank 0, 0B0: cannot have whole and split backwards in one file; nearest valid: dialect "
            "torch");
  EXPECT_THAT(
      std::string(FormatPytorchCsv(ParsePytorchCsv(kComputeComms)->lists, CsvDialect::kTorch25).status().message()),
      HasSubstr("has no REDUCE_GRAD"));
  const ActionLists pair = ParsePytorchCsv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n")->lists;
  EXPECT_THAT(std::string(FormatPytorchCsv(pair, CsvDialect::kLate2024).status().message()), HasSubstr("OVERLAP_F_B"));
}

TEST(ToActionLists, SaysWhatAListCannot) {
  PipelineSchedule schedule = ParsePytorchCsv(kComputeOnly)->schedule;
  auto error = [&] { return std::string(ToActionLists(schedule, 2).status().message()); };
  schedule.message_driven = MessageDriven{};
  EXPECT_THAT(error(), HasSubstr("message-driven"));
  schedule.message_driven.reset();
  schedule.asynchrony = Asynchrony{};
  EXPECT_THAT(error(), HasSubstr("asynchronous"));
  schedule.asynchrony.reset();
  schedule.order[1][0].width = 2;
  EXPECT_THAT(error(), HasSubstr("rank 1 computes the forwards of stage 1 for microbatches 0 and 1 at once"));
  schedule.order[1][0].width = 1;
  schedule.lanes = 2;
  schedule.placement.push_back({1, 0});
  EXPECT_THAT(error(), HasSubstr("stage 0 is on ranks 0 and 1 (lanes 0 and 1)"));
}

}  // namespace
}  // namespace weft
