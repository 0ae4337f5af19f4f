#include "cli/schedule/schedule_view.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/json.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TimedSchedule Build(const char* name, const ScheduleParams& params, int64_t scale = 1) {
  TimedSchedule timed;
  timed.name = name;
  timed.schedule = *BuildSchedule(**FindSchedule(name), params);
  timed.microbatches = params.microbatches;
  timed.timing = *TimeSchedule(timed.schedule, params.microbatches, params.costs);
  timed.scale = scale;
  return timed;
}

TimedSchedule Build(const char* name, int ranks, int microbatches, SlotCosts costs, int64_t scale = 1) {
  return Build(name, {.ranks = ranks, .microbatches = microbatches, .costs = costs}, scale);
}

// The same drawing as in schedules/pipeline/one_f_one_b.cc.
TEST(ScheduleTimeline, OneFOneB) {
  const TimedSchedule t = Build("1f1b", 3, 4, {.forward = 1, .backward = 2});
  EXPECT_EQ(ScheduleTimeline(t, 100, false),
            "  rank 0 f0 f1 f2 .. .. .. .. B0 B0 f3 B1 B1 .. B2 B2 .. B3 B3\n"
            "  rank 1 .. f0 f1 .. .. B0 B0 f2 B1 B1 f3 B2 B2 .. B3 B3 .. ..\n"
            "  rank 2 .. .. f0 B0 B0 f1 B1 B1 f2 B2 B2 f3 B3 B3 .. .. .. ..\n"
            "  one column = 1; f forward, B backward\n");
}

TEST(ScheduleTimeline, TooWideIsDrawnByLetters) {
  const TimedSchedule t = Build("gpipe", 2, 2, {.forward = 1000, .backward = 2001}, 1000);
  EXPECT_EQ(ScheduleTimeline(t, 30, false),
            "  rank 0 fffff.......BBBBBBBBB\n"
            "  rank 1 ..fffffBBBBBBBBB.....\n"
            "  one column = 0.429; a column shows what runs at its middle; f forward, B backward\n");
}

TEST(ScheduleTimeline, ColorsRunsOnce) {
  const TimedSchedule t = Build("gpipe", 1, 2, {.forward = 1, .backward = 1});
  EXPECT_EQ(ScheduleTimeline(t, 100, true),
            "  rank 0 \033[34mf0 f1 \033[0m\033[32mB0 B1 \033[0m\n  one column = 1; f forward, B backward\n");
}

TEST(ScheduleTimeline, ManyRanksAreCut) {
  const TimedSchedule t = Build("gpipe", 100, 1, {.forward = 1, .backward = 1});
  EXPECT_THAT(ScheduleTimeline(t, 100, false), HasSubstr("(the first 64 of 100 ranks)"));
}

TEST(ScheduleReport, IsTheDoubleNearestToTheExactFigure) {
  const TimedSchedule t = Build("1f1b", 4, 8, {.forward = 1500, .backward = 2100}, 1000);
  const ScheduleReport report = MakeScheduleReport(t);
  EXPECT_EQ(report.makespan(), 39.6);
  EXPECT_EQ(report.span(), 39.6);
  EXPECT_EQ(report.ideal(), 28.8);
  EXPECT_EQ(report.bubble_ratio(), 3.0 / 11);
  EXPECT_EQ(report.bubble_over_ideal(), 3.0 / 8);
  EXPECT_EQ(report.per_rank(0).peak_activations(), 4);
  EXPECT_EQ(report.per_rank(3).idle(), 10.8);
  EXPECT_THAT(*MessageToJson(report), HasSubstr("\"peak_activations\": 4,\n"));
}

TEST(ScheduleSvg, OneRectanglePerSlotInItsPlace) {
  const TimedSchedule t = Build("gpipe", 2, 2, {.forward = 1, .backward = 3});
  const ScheduleReport report = MakeScheduleReport(t);
  const std::string svg = *ScheduleSvg(t, report);
  EXPECT_EQ(svg, *ScheduleSvg(t, report));
  int forwards = 0, backwards = 0;
  for (size_t at = 0; (at = svg.find("fill=\"#4c78a8\"", at)) != std::string::npos; ++at) ++forwards;
  for (size_t at = 0; (at = svg.find("fill=\"#54a24b\"", at)) != std::string::npos; ++at) ++backwards;
  EXPECT_EQ(forwards, 4);
  EXPECT_EQ(backwards, 4);
  // 12 units are drawn on 1000 pixels, from x = 70 on. The last backward of rank 0 runs from 9 to 12.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"820.00\" y=\"34\" width=\"250.00\""));
  EXPECT_THAT(svg, HasSubstr("gpipe, 2 ranks, 2 microbatches: makespan 12, bubble 33.33 %"));
}

TEST(ScheduleSvg, NamesAreEscaped) {
  TimedSchedule t = Build("gpipe", 2, 2, {});
  t.name = "<b>&";
  EXPECT_THAT(*ScheduleSvg(t, MakeScheduleReport(t)), HasSubstr(">&lt;b&gt;&amp;, 2 ranks"));
}

// This test takes a minute or more if some code takes time per pair of stages, or per pair of a rank and a slot.
TEST(ScheduleView, ManyRanksAndSlotsAreQuick) {
  const TimedSchedule ranks = Build("1f1b", 300'000, 1, {});
  const ScheduleReport report = MakeScheduleReport(ranks);
  EXPECT_EQ(report.weight_copies(), 1);
  EXPECT_THAT(ScheduleTable(report), HasSubstr("(the first 256 of 300000 ranks; --format=json has all)"));
  EXPECT_LT(ScheduleTable(report).size(), 100'000u);
  EXPECT_THAT(ScheduleTimeline(ranks, 100, false), HasSubstr("(the first 64 of 300000 ranks)"));
  const TimedSchedule slots = Build("gpipe", 1, 1'000'000, {});
  EXPECT_THAT(ScheduleTimeline(slots, 100, false), HasSubstr("no timeline: the first 1 ranks have 2000000 slots"));
  EXPECT_THAT(std::string(ScheduleSvg(slots, MakeScheduleReport(slots)).status().message()),
              HasSubstr("a drawing of 2000000 slots is too large; allowed: at most 131072"));
}

// Halves, pairs and lanes look different, and the legend names the symbols that occur.
TEST(ScheduleTimeline, EveryKind) {
  const TimedSchedule halves = Build("zb-h1", 2, 2, {});
  EXPECT_EQ(ScheduleTimeline(halves, 100, false),
            "  rank 0 f0 f1 .. I0 W0 I1 W1\n"
            "  rank 1 .. f0 I0 f1 I1 W0 W1\n"
            "  one column = 1; f forward, I input gradient, W weight gradient\n");
  const TimedSchedule pairs = Build("dualpipe", 2, 4, {});
  const std::string text = ScheduleTimeline(pairs, 200, false);
  EXPECT_THAT(text, HasSubstr(" p1a P2b P2b "));
  EXPECT_THAT(text, HasSubstr("p and P a forward and a backward that overlap, lanes a to b\n"));
  const TimedSchedule chunks = Build("interleaved", 2, 2, {});
  EXPECT_EQ(ScheduleTimeline(chunks, 100, false),
            "  rank 0 f0  f1  f0' f1' ..  ..  B0' B0' ..  B1' B1' B0  B0  B1  B1\n"
            "  rank 1 ..  f0  f1  f0' B0' B0' f1' B1' B1' B0  B0  B1  B1  ..  ..\n"
            "  one column = 0.5; f forward, B backward, ' the rank's second stage\n");
  const TimedSchedule wide = Build("chimera", {.ranks = 2, .microbatches = 4, .scaling = Scaling::kForwardDoubling});
  EXPECT_THAT(ScheduleTimeline(wide, 200, false), HasSubstr("+ and the next microbatch"));
}

TEST(ScheduleReport, CausesOfIdleTimeAddUp) {
  const TimedSchedule t = Build("zb-v", 4, 8, {.forward = 3, .backward = 5, .weight = 2, .p2p = 1});
  const ScheduleReport report = MakeScheduleReport(t);
  for (const ScheduleRank& row : report.per_rank()) {
    EXPECT_DOUBLE_EQ(row.warm_up() + row.dependency() + row.communication() + row.tail(), row.idle());
  }
  EXPECT_EQ(report.stages(), 8);
  EXPECT_EQ(report.weight_copies(), 1);
  EXPECT_EQ(report.period(), report.makespan());
}

TEST(ScheduleReport, WeightsAndPeriods) {
  EXPECT_EQ(MakeScheduleReport(Build("chimera", 4, 4, {})).weight_copies(), 2);
  // With an odd number of ranks, both directions have the middle stage on the same rank.
  EXPECT_EQ(WeightCopies(Build("gems", 3, 2, {}).schedule), 5.0 / 3);
  const ScheduleReport async = MakeScheduleReport(Build("pipedream", 4, 8, {}));
  EXPECT_EQ(async.period(), 24);
  EXPECT_EQ(async.makespan(), 33);
  // The four ranks hold 4, 3, 2 and 1 versions of a quarter of the weights each.
  EXPECT_EQ(async.weight_copies(), 2.5);
  EXPECT_THAT(ScheduleTable(async), HasSubstr("asynchronous: time per step in steady state 24, bubble 0.00 %"));
}

}  // namespace
}  // namespace weft
