#include "cli/schedule/schedule_load.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

ScheduleRequest Request(const std::string& name, int ranks = 0, int microbatches = 0) {
  ScheduleRequest request;
  request.name = name;
  request.params = {.ranks = ranks, .microbatches = microbatches};
  return request;
}

std::string Error(const ScheduleRequest& request) { return std::string(LoadSchedule(request).status().message()); }

std::vector<std::string> Names(const ScheduleComparisonReport& report) {
  std::vector<std::string> names;
  for (const ScheduleReport& row : report.schedules()) names.push_back(row.schedule());
  return names;
}

TEST(LoadSchedule, RegisteredAndFile) {
  const LoadedSchedule registered = *LoadSchedule(Request("1f1b"));
  EXPECT_EQ(registered.report.ranks(), 4);
  EXPECT_EQ(registered.report.microbatches(), 8);
  EXPECT_EQ(registered.report.closed_form_makespan(), 33);

  const std::string csv = WriteFile("mine.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const LoadedSchedule file = *LoadSchedule(Request(csv));
  EXPECT_EQ(file.report.ranks(), 2);
  EXPECT_EQ(file.report.microbatches(), 2);
  EXPECT_EQ(file.report.makespan(), 9);
  EXPECT_FALSE(file.report.has_closed_form_makespan());
  EXPECT_EQ(file.timed.name, csv);
  EXPECT_THAT(Error(Request(csv, 4)), HasSubstr("mine.csv: the schedule is for 2 ranks, but 4 are asked for"));

  EXPECT_THAT(Error(Request("1f1c")), HasSubstr("nearest: '1f1b'"));
  EXPECT_THAT(Error(Request("1f1c")), HasSubstr("; and there is no such file"));
  EXPECT_THAT(Error(Request("no/such.csv")), HasSubstr("no/such.csv"));
  EXPECT_THAT(Error(Request(WriteFile("bad.csv", "0F0,0X0\n"))),
              HasSubstr("bad.csv: line 1 (rank 0), cell 2: unknown action 'X'"));
}

TEST(LoadSchedule, FreezeMakesItStatic) {
  ScheduleRequest request = Request("axonn");
  EXPECT_THAT(std::string(ActionsOf(*LoadSchedule(request), CsvForm::kComputeOnly).status().message()),
              HasSubstr("PyTorch's CSV cannot express what axonn does: the order is message-driven"));
  request.freeze = true;
  EXPECT_EQ(LoadSchedule(request)->frozen, true);
  EXPECT_TRUE(ActionsOf(*LoadSchedule(request), CsvForm::kComputeComms).ok());
}

TEST(LoadSchedule, FreezeIsForMessageDrivenSchedules) {
  ScheduleRequest request = Request("1f1b");
  request.freeze = true;
  EXPECT_THAT(
      Error(request),
      HasSubstr("--freeze: schedule '1f1b' is static already; only message-driven schedules can be frozen: axonn"));
  EXPECT_TRUE(CompareSchedules(request, {"axonn"}).ok());
  EXPECT_THAT(std::string(CompareSchedules(request, {"gpipe"}).status().message()), HasSubstr("--freeze"));
}

TEST(CompareSchedules, FastestFirst) {
  const ScheduleComparisonReport report = *CompareSchedules(Request("gpipe"), {"zb-h1", "1f1b", "interleaved"});
  EXPECT_THAT(Names(report), ElementsAre("zb-h1", "interleaved", "gpipe", "1f1b"));
  EXPECT_EQ(report.skipped_size(), 0);
}

// If a transfer takes as long as a microbatch's forward, the ranking of schedules changes.
TEST(CompareSchedules, LatencyFlipsTheOrder) {
  ScheduleRequest request = Request("gpipe", 4, 8);
  const std::vector<std::string> others = {"1f1b",  "eager-1f1b", "interleaved", "looped-bfs",    "zb-h1",
                                           "zb-h2", "zb-v",       "chimera",     "interleaved-zb"};
  auto makespans = [&] {
    std::vector<std::pair<std::string, double>> rows;
    const ScheduleComparisonReport report = *CompareSchedules(request, others);
    for (const ScheduleReport& row : report.schedules()) rows.push_back({row.schedule(), row.makespan()});
    return rows;
  };
  EXPECT_EQ(makespans().front().second, 25.5);
  EXPECT_EQ(makespans().back().second, 33);
  request.params.costs.p2p = 1;
  EXPECT_EQ(makespans().front(), (std::pair<std::string, double>{"zb-h2", 30}));
  EXPECT_EQ(makespans().back(), (std::pair<std::string, double>{"interleaved-zb", 51}));
}

// A schedule of "all" that does not exist for these sizes is reported with the reason. For a schedule asked for by
// name, that is an error.
TEST(CompareSchedules, SkipsWithReason) {
  const ScheduleComparisonReport report = *CompareSchedules(Request("1f1b", 3, 5), {"all"});
  EXPECT_EQ(report.schedules_size() + report.skipped_size(), Schedules().size());
  bool odd = false;
  for (const SkippedSchedule& skipped : report.skipped()) {
    EXPECT_NE(skipped.reason(), "");
    odd |= skipped.schedule() == "chimera" && skipped.reason().find("ranks = 3") != std::string::npos;
  }
  EXPECT_TRUE(odd) << report.DebugString();
  EXPECT_THAT((std::vector<std::string>{"1f1b", "gpipe", "gems", "interleaved"}), IsSubsetOf(Names(report)));
  EXPECT_THAT(std::string(CompareSchedules(Request("1f1b", 3, 5), {"chimera"}).status().message()),
              HasSubstr("ranks = 3"));
}

TEST(CompareSchedules, EachGetsTheParametersThatItTakes) {
  ScheduleRequest request = Request("1f1b");
  request.params.virtual_stages = 4;
  const ScheduleComparisonReport report = *CompareSchedules(request, {"interleaved"});
  EXPECT_THAT(Names(report), ElementsAre("interleaved", "1f1b"));
  EXPECT_EQ(report.schedules(0).stages(), 16);
  EXPECT_THAT(Error(request), HasSubstr("schedule '1f1b' does not take --virtual; those that do: dualpipev, "));
  // A parameter that none of the schedules takes is an error.
  EXPECT_THAT(std::string(CompareSchedules(request, {"gpipe"}).status().message()),
              HasSubstr("none of the compared schedules takes --virtual; those that do: "));
}

TEST(LoadSchedule, NamesOfFiles) {
  const std::string mine =
      WriteFile("mine.schedule", "weft schedule 1\nname: own\nranks: 1\nmicrobatches: 1\nrank 0: F0.0 B0.0\n");
  const LoadedSchedule own = *LoadSchedule(Request(mine));
  EXPECT_EQ(own.own_name, "own");
  EXPECT_EQ(own.report.schedule(), "own");
  // Control characters and bytes that are not UTF-8 are escaped.
  const LoadedSchedule odd = *LoadSchedule(Request(WriteFile("a\x1b[31m\xff.csv", "0F0,0B0\n")));
  EXPECT_THAT(odd.report.schedule(), HasSubstr("a\\x1b[31m\\xff.csv"));
  EXPECT_EQ(odd.own_name, "");
  EXPECT_THAT(Error(Request(WriteFile("b\x1b\xff.csv", "0F0\n"))), HasSubstr("b\\x1b\\xff.csv: "));
  EXPECT_LT(Error(Request(std::string(100'000, 'x'))).size(), 1000u);
}

}  // namespace
}  // namespace weft
