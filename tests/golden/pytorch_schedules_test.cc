// Compares weft's schedules with the schedules of PyTorch's pipelining (make_pytorch_schedules.py), token by token.
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/lowering.h"
#include "schedules/pipeline/pytorch_csv.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

std::string Read(const std::string& name) {
  std::ifstream file(absl::StrCat("tests/golden/pytorch_schedules/", name, ".csv"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good()) << name;
  return text.str();
}

// Reads the file as a schedule of computation and writes it again, which drops cells without meaning.
std::string ReadCompute(const std::string& name) {
  const absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(Read(name), {.form = CsvForm::kComputeOnly});
  EXPECT_TRUE(read.ok()) << read.status();
  return *FormatPytorchCsv(read->lists);
}

ActionLists Build(const char* name, const ScheduleParams& params) {
  const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(name);
  EXPECT_TRUE(entry.ok()) << entry.status();
  const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(**entry, params);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *ToActionLists(*schedule, params.microbatches);
}

constexpr LoweringOptions kWithoutFsdp = {
    .merge_backwards = true, .unsharded_stages = 0, .reduce_gradients = false, .transfers = true};

TEST(PytorchSchedules, InterleavedZeroBubble) {
  std::map<std::string, int64_t> steps;
  for (absl::string_view line : absl::StrSplit(Read("unit_steps"), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ASSERT_TRUE(absl::SimpleAtoi(cells[1], &steps[cells[0]]));
  }
  EXPECT_EQ(steps.at("interleaved_zb_p2_v2_n8"), 113);
  for (int ranks : {2, 4}) {
    const std::string name = absl::StrCat("interleaved_zb_p", ranks, "_v2_n8");
    const ActionLists lists = Build("interleaved-zb", {.ranks = ranks, .microbatches = 8, .virtual_stages = 2});
    EXPECT_EQ(*FormatPytorchCsv(lists), ReadCompute(name + "_compute_only"));
    const absl::StatusOr<ActionLists> lowered = Lower(lists, kWithoutFsdp);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(*FormatPytorchCsv(*lowered), Read(name + "_compute_comms"));
    EXPECT_EQ(*CountUnitSteps(*lowered), steps.at(name));
    EXPECT_EQ(*CountUnitSteps(ParsePytorchCsv(Read(name + "_compute_comms"))->lists), steps.at(name));
  }
}

TEST(PytorchSchedules, DualPipeV) {
  const ActionLists lists = Build("dualpipev", {.ranks = 4, .microbatches = 10});
  EXPECT_EQ(*FormatPytorchCsv(lists), Read("dualpipev_p4_n10_compute_only"));
  EXPECT_EQ(*FormatPytorchCsv(*Lower(lists)), Read("dualpipev_p4_n10_compute_comms"));
}

TEST(PytorchSchedules, Interleaved) {
  for (const auto& [ranks, microbatches] : {std::pair{2, 2}, std::pair{4, 10}}) {
    const std::string name = absl::StrCat("interleaved_p", ranks, "_v2_n", microbatches);
    const ActionLists lists = Build("interleaved", {.ranks = ranks,
                                                    .microbatches = microbatches,
                                                    .virtual_stages = 2,
                                                    .group = microbatches / (microbatches / ranks)});
    EXPECT_EQ(*FormatPytorchCsv(lists), ReadCompute(name + "_compute_only"));
    EXPECT_EQ(*FormatPytorchCsv(*Lower(lists)), Read(name + "_compute_comms"));
  }
}

// Compares only the lowering. (PyTorch runs the backwards of looped_bfs in descending order, weft in ascending order.)
TEST(PytorchSchedules, LoweringOfWhatIsRead) {
  for (const char* name :
       {"looped_bfs_p2_v3_n4_compute_comms", "dualpipev_p4_n10_compute_comms", "interleaved_p4_v2_n10_compute_comms"}) {
    const absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(Read(name));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->options.form, CsvForm::kComputeComms);
    EXPECT_EQ(*FormatPytorchCsv(*Lower(*ToActionLists(read->schedule, read->microbatches))), Read(name));
  }
}

TEST(PytorchSchedules, UnshardsOfRankZero) {
  std::vector<std::string> lines = absl::StrSplit(Read("unshard_counts"), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 1 + 3 * 2 * 3);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = absl::StrSplit(lines[i], ',');
    std::vector<int> numbers(cells.size());
    for (size_t k = 1; k < cells.size(); ++k) ASSERT_TRUE(absl::SimpleAtoi(cells[k], &numbers[k]));
    SCOPED_TRACE(lines[i]);
    const ActionLists lists =
        Build(cells[0].c_str(), {.ranks = numbers[1], .microbatches = numbers[3], .virtual_stages = numbers[2]});
    LoweringOptions options;
    options.unsharded_stages = numbers[4];
    const ActionLists lowered = *Lower(lists, options);
    int unshards = 0;
    for (const ListAction& action : lowered.order[0]) {
      unshards += action.kind == ListActionKind::kUnshard;
    }
    EXPECT_EQ(unshards, numbers[5]);
  }
}

}  // namespace
}  // namespace weft
