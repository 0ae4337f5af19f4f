#include "cli/schedule_view.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

struct Timed {
  PipelineSchedule schedule;
  ScheduleTiming timing;
};

Timed Build(const char* name, int ranks, int microbatches, SlotCosts costs) {
  Timed timed;
  timed.schedule = *(*FindSchedule(name))->build({.ranks = ranks, .microbatches = microbatches});
  timed.timing = *TimeSchedule(timed.schedule, microbatches, costs);
  return timed;
}

// The drawing of schedules/pipeline/one_f_one_b.cc.
TEST(ScheduleTimeline, OneFOneB) {
  const Timed t = Build("1f1b", 3, 4, {.forward = 1, .backward = 2});
  EXPECT_EQ(ScheduleTimeline(t.schedule, t.timing, 1, 100, false),
            "  rank 0 f0 f1 f2 .. .. .. .. B0 B0 f3 B1 B1 .. B2 B2 .. B3 B3\n"
            "  rank 1 .. f0 f1 .. .. B0 B0 f2 B1 B1 f3 B2 B2 .. B3 B3 .. ..\n"
            "  rank 2 .. .. f0 B0 B0 f1 B1 B1 f2 B2 B2 f3 B3 B3 .. .. .. ..\n"
            "  one column = 1\n");
}

TEST(ScheduleTimeline, TooWideIsDrawnByLetters) {
  const Timed t = Build("gpipe", 2, 2, {.forward = 1000, .backward = 2001});
  EXPECT_EQ(ScheduleTimeline(t.schedule, t.timing, 1000, 30, false),
            "  rank 0 fffff.......BBBBBBBBB\n"
            "  rank 1 ..fffffBBBBBBBBB.....\n"
            "  one column = 0.429, each drawn by its middle\n");
}

TEST(ScheduleTimeline, ColoursRunsOnce) {
  const Timed t = Build("gpipe", 1, 2, {.forward = 1, .backward = 1});
  EXPECT_EQ(ScheduleTimeline(t.schedule, t.timing, 1, 100, true),
            "  rank 0 \033[34mf0 f1 \033[0m\033[32mB0 B1 \033[0m\n  one column = 1\n");
}

TEST(ScheduleTimeline, ManyRanksAreCut) {
  const Timed t = Build("gpipe", 100, 1, {.forward = 1, .backward = 1});
  EXPECT_THAT(ScheduleTimeline(t.schedule, t.timing, 1, 100, false), HasSubstr("(the first 64 of 100 ranks)"));
}

TEST(ScheduleReport, IsTheDoubleNearestToTheExactFigure) {
  const Timed t = Build("1f1b", 4, 8, {.forward = 1500, .backward = 2100});
  const ScheduleReport report = MakeScheduleReport("1f1b", 8, t.timing, 1000);
  EXPECT_EQ(report.makespan(), 39.6);
  EXPECT_EQ(report.span(), 39.6);
  EXPECT_EQ(report.ideal(), 28.8);
  EXPECT_EQ(report.bubble_ratio(), 3.0 / 11);
  EXPECT_EQ(report.bubble_over_ideal(), 3.0 / 8);
  EXPECT_EQ(report.per_rank(0).peak_activations(), 4);
  EXPECT_EQ(report.per_rank(3).idle(), 10.8);
  EXPECT_THAT(*MessageToJson(report), HasSubstr("\"peak_activations\": 4\n"));
}

TEST(ScheduleSvg, OneRectanglePerSlotInItsPlace) {
  const Timed t = Build("gpipe", 2, 2, {.forward = 1, .backward = 3});
  const ScheduleReport report = MakeScheduleReport("gpipe", 2, t.timing, 1);
  const std::string svg = ScheduleSvg(t.schedule, t.timing, report);
  EXPECT_EQ(svg, ScheduleSvg(t.schedule, t.timing, report));
  int forwards = 0, backwards = 0;
  for (size_t at = 0; (at = svg.find("fill=\"#4c78a8\"", at)) != std::string::npos; ++at) ++forwards;
  for (size_t at = 0; (at = svg.find("fill=\"#54a24b\"", at)) != std::string::npos; ++at) ++backwards;
  EXPECT_EQ(forwards, 4);
  EXPECT_EQ(backwards, 4);
  // 12 units on 1000 pixels from 70 on; the last backward of rank 0 is from 9 to 12.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"820.00\" y=\"34\" width=\"250.00\""));
  EXPECT_THAT(svg, HasSubstr("gpipe, 2 ranks, 2 microbatches: makespan 12, bubble 33.33 %"));
}

TEST(ScheduleCsv, AsPyTorchReadsIt) {
  const Timed t = Build("1f1b", 2, 2, {});
  EXPECT_EQ(ScheduleCsv(t.schedule), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

}  // namespace
}  // namespace weft
