// Checks makespans, spans and peaks that were measured once with independent simulators and generators. All are exact
// numbers. The drawings and formulas are in the schedules' own files.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

// Reads "13.5" as 135/10.
Ratio Exactly(absl::string_view text) {
  Ratio ratio;
  bool fraction = false;
  for (char c : text) {
    if (c == '.') {
      fraction = true;
      continue;
    }
    EXPECT_TRUE(c >= '0' && c <= '9') << text;
    ratio.numerator = 10 * ratio.numerator + (c - '0');
    if (fraction) ratio.denominator *= 10;
  }
  return ratio;
}

bool AtMost(const Ratio& a, const Ratio& b) { return a.numerator * b.denominator <= b.numerator * a.denominator; }

std::string Text(const Ratio& ratio) { return absl::StrCat(ratio.numerator, "/", ratio.denominator); }

struct Measured {
  Ratio makespan;
  Ratio span;
  Ratio ideal;
  std::vector<Ratio> peaks;
  Ratio peak;
};

// Builds the schedule and measures it. Divides all times by `scale`.
Measured Measure(const std::string& name, const ScheduleParams& params, int64_t scale = 1) {
  const ScheduleEntry* entry = *FindSchedule(name);
  const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(*entry, params);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  const absl::StatusOr<ScheduleTiming> timing = TimeSchedule(*schedule, params.microbatches, params.costs);
  EXPECT_TRUE(timing.ok()) << timing.status();
  if (!timing.ok()) return {};
  Measured measured = {.makespan = {timing->makespan, timing->unit * scale},
                       .span = {timing->span, timing->unit * scale},
                       .ideal = {timing->ideal, timing->unit * scale},
                       .peaks = {},
                       .peak = {0, timing->unit}};
  for (const RankTiming& rank : timing->ranks) {
    measured.peaks.push_back({rank.peak_activations, timing->unit});
    measured.peak.numerator = std::max(measured.peak.numerator, rank.peak_activations);
  }
  return measured;
}

enum class Compare { kExact, kAtMost };

void ExpectRatio(const char* what, const Ratio& measured, const Ratio& expected, Compare compare) {
  EXPECT_TRUE(compare == Compare::kExact ? measured == expected : AtMost(measured, expected))
      << what << ": measured " << Text(measured) << ", expected " << (compare == Compare::kExact ? "" : "at most ")
      << Text(expected);
}

// `cell` is "makespan/peak" or "makespan(sSPAN)/peak".
void ExpectCell(const Measured& measured, absl::string_view cell, Compare compare) {
  const std::vector<std::string> parts = absl::StrSplit(cell, '/');
  ASSERT_EQ(parts.size(), 2) << cell;
  const std::vector<std::string> times = absl::StrSplit(parts[0], absl::ByAnyChar("(s)"), absl::SkipEmpty());
  ExpectRatio("makespan", measured.makespan, Exactly(times[0]), compare);
  if (times.size() > 1) ExpectRatio("span", measured.span, Exactly(times[1]), compare);
  ExpectRatio("peak", measured.peak, Exactly(parts[1]), compare);
}

TEST(Acceptance, MakespanAndPeak) {
  struct Row {
    const char* name;
    ScheduleParams params;
    // One cell for each (P, N) = (2,4), (4,4), (4,8), (4,16), (8,8), (8,16), (8,32); "-": not defined.
    std::vector<const char*> cells;
    // Not kExact if the definition leaves the order free, because our order may then be better.
    Compare compare = Compare::kExact;
  };
  const std::vector<std::pair<int, int>> sizes = {{2, 4}, {4, 4}, {4, 8}, {4, 16}, {8, 8}, {8, 16}, {8, 32}};
  const std::vector<Row> rows = {
      {"gpipe", {}, {"15/4", "21/4", "33/8", "57/16", "45/8", "69/16", "117/32"}},
      {"1f1b", {}, {"15/2", "21/4", "33/4", "57/4", "45/8", "69/8", "117/8"}},
      {"interleaved",
       {.virtual_stages = 2},
       {"13.5/2.5", "16.5/4", "28.5/5.5", "52.5/5.5", "34.5/8", "58.5/11.5", "106.5/11.5"}},
      {"interleaved",
       {.virtual_stages = 4},
       {"12.75/2.25", "14.25/4", "26.25/4.75", "50.25/4.75", "29.25/8", "53.25/9.75", "101.25/9.75"}},
      {"looped-bfs", {.virtual_stages = 2}, {"13.5/4", "16.5/4", "28.5/8", "52.5/16", "34.5/8", "58.5/16", "106.5/32"}},
      {"gems", {}, {"21/1", "39/1", "75/1", "147/1", "143/1", "279/1", "551/1"}},
      {"chimera", {.lanes = 2}, {"12/2", "16/4", "30/4", "58/4", "36/8", "66/8", "126/8"}},
      {"chimera", {.lanes = 4}, {"-", "12/4", "24/4", "48/4", "28/8", "54/8", "106/8"}},
      {"zb-h1", {}, {"13/2", "15/4", "27/4", "51/4", "31/8", "55/8", "103/8"}},
      {"zb-h2", {}, {"13(s12)/3", "16(s15)/4", "27(s24)/7", "51(s48)/7", "34(s31)/8", "55(s48)/15", "103(s96)/15"}},
      {"interleaved-zb", {.virtual_stages = 2}, {"12.5/2", "13.5/4", "25.5/4", "49.5/4", "27.5/8", "51.5/8", "99.5/8"}},
      {"zb-v", {}, {"12.5(s12)/2", "15/4", "25.5(s24)/4", "49.5(s48)/4", "31/8", "51.5(s48)/8", "99.5(s96)/8"}},
      {"v-half", {}, {"12.5/2", "17/3", "26.5/3", "50.5/3", "32.5/5", "56.5/5", "104.5/5"}, Compare::kAtMost},
      {"v-min", {}, {"13.5/2", "17.5/2", "29.5/2", "53.5/2", "37.5/4", "61.5/4", "109.5/4"}, Compare::kAtMost},
      {"dualpipe", {.costs = {.pair = 3}}, {"12/3", "-", "26/5", "50/5", "-", "54/9", "102/9"}},
      {"dualpipev", {.costs = {.pair = 3}}, {"13/2.5", "-", "27/4.5", "51/4.5", "-", "55/8.5", "103/8.5"}},
      {"axonn", {}, {"15/2", "21/4", "33/4", "57/4", "45/8", "75/8", "124/8"}},
  };
  for (const Row& row : rows) {
    ASSERT_EQ(row.cells.size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      ScheduleParams params = row.params;
      params.ranks = sizes[i].first;
      params.microbatches = sizes[i].second;
      SCOPED_TRACE(testing::Message() << row.name << " P=" << params.ranks << " N=" << params.microbatches
                                      << " v=" << params.virtual_stages << " lanes=" << params.lanes);
      if (std::string(row.cells[i]) == "-") {
        EXPECT_EQ(BuildSchedule(**FindSchedule(row.name), params).status().code(), absl::StatusCode::kInvalidArgument);
      } else {
        ExpectCell(Measure(row.name, params), row.cells[i], row.compare);
      }
    }
  }
}

TEST(Acceptance, PeakOfEachRank) {
  struct Row {
    const char* name;
    ScheduleParams params;
    std::vector<const char*> peaks;
  };
  const std::vector<Row> rows = {
      {"1f1b", {.ranks = 4, .microbatches = 8}, {"4", "3", "2", "1"}},
      {"eager-1f1b", {.ranks = 4, .microbatches = 8}, {"7", "5", "3", "1"}},
      {"interleaved", {.ranks = 4, .microbatches = 8, .virtual_stages = 2}, {"5.5", "4.5", "3.5", "2.5"}},
      {"chimera", {.ranks = 4, .microbatches = 4}, {"3", "4", "4", "3"}},
      {"chimera", {.ranks = 8, .microbatches = 8}, {"5", "6", "7", "8", "8", "7", "6", "5"}},
      {"zb-h1", {.ranks = 4, .microbatches = 8}, {"4", "4", "4", "4"}},
      {"zb-h2", {.ranks = 4, .microbatches = 8}, {"7", "7", "7", "7"}},
      {"zb-v", {.ranks = 4, .microbatches = 8}, {"4", "4", "4", "4"}},
      {"v-half", {.ranks = 4, .microbatches = 8}, {"3", "3", "3", "3"}},
      {"axonn", {.ranks = 4, .microbatches = 8}, {"4", "4", "4", "1"}},
      {"interleaved", {.ranks = 4, .microbatches = 10, .virtual_stages = 2}, {"6", "5", "4", "3"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.name << " P=" << row.params.ranks << " N=" << row.params.microbatches);
    const Measured measured = Measure(row.name, row.params);
    ASSERT_EQ(measured.peaks.size(), row.peaks.size());
    for (size_t rank = 0; rank < row.peaks.size(); ++rank) {
      EXPECT_EQ(measured.peaks[rank], Exactly(row.peaks[rank]))
          << "rank " << rank << ": " << Text(measured.peaks[rank]);
    }
  }
}

// P = 4, N = 8, F = 1, B = 2, W = 1 with an edge latency of 0, 1/4, 1/2 and 1. A schedule that is among the best
// without latency may be among the worst with it.
TEST(Acceptance, LatencyTurnsTheRanking) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> rows = {
      {"gpipe", {"33", "34.5", "36", "39"}},          {"1f1b", {"33", "37", "41", "49"}},
      {"eager-1f1b", {"33", "34.5", "36", "39"}},     {"interleaved", {"28.5", "32", "35.5", "46"}},
      {"looped-bfs", {"28.5", "30", "31.5", "36.5"}}, {"zb-h1", {"27", "30", "33", "41"}},
      {"zb-h2", {"27", "27.75", "28.5", "30"}},       {"zb-v", {"25.5", "28.75", "32.5", "41.5"}},
      {"chimera", {"30", "32.75", "35.5", "41"}},     {"interleaved-zb", {"25.5", "29.5", "36", "51"}},
  };
  const int64_t quarters[] = {0, 1, 2, 4};
  auto measure = [&](const char* name, int64_t latency) {
    return Measure(name,
                   {.ranks = 4, .microbatches = 8, .costs = {.forward = 4, .backward = 8, .weight = 4, .p2p = latency}},
                   4)
        .makespan;
  };
  // Pairs of schedules whose order at latency 1 differs from their order at latency 0.
  int turned = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int c = 0; c < 4; ++c) {
      SCOPED_TRACE(testing::Message() << rows[i].first << " p2p " << quarters[c] << "/4");
      ExpectRatio("makespan", measure(rows[i].first, quarters[c]), Exactly(rows[i].second[c]), Compare::kExact);
    }
    for (size_t j = 0; j < i; ++j) {
      auto before = [&](int64_t latency) {
        const Ratio a = measure(rows[i].first, latency), b = measure(rows[j].first, latency);
        return AtMost(a, b) - AtMost(b, a);
      };
      auto expected = [&](int c) {
        const Ratio a = Exactly(rows[i].second[c]), b = Exactly(rows[j].second[c]);
        return AtMost(a, b) - AtMost(b, a);
      };
      EXPECT_EQ(before(0), expected(0)) << rows[i].first << " " << rows[j].first;
      EXPECT_EQ(before(4), expected(3)) << rows[i].first << " " << rows[j].first;
      turned += before(0) * before(4) < 0;
    }
  }
  EXPECT_GT(turned, 0);
}

TEST(Acceptance, GroupsOfInterleaved) {
  const std::vector<std::pair<ScheduleParams, const char*>> rows = {
      {{.ranks = 4, .microbatches = 10, .virtual_stages = 2}, "34.5/6"},
      {{.ranks = 4, .microbatches = 10, .virtual_stages = 2, .group = 5}, "34.5/6"},
      {{.ranks = 4, .microbatches = 6, .virtual_stages = 2}, "22.5/6"},
      {{.ranks = 2, .microbatches = 5, .virtual_stages = 2, .group = 3}, "16.5/3"},
      {{.ranks = 4, .microbatches = 12, .virtual_stages = 2, .group = 6}, "40.5/6.5"},
      {{.ranks = 4, .microbatches = 8, .virtual_stages = 2, .group = 8}, "28.5/7.5"},
      // With fewer microbatches than ranks, the bubble is 6 instead of 4.5.
      {{.ranks = 4, .microbatches = 3, .virtual_stages = 2}, "15/3"},
  };
  for (const auto& [params, cell] : rows) {
    SCOPED_TRACE(testing::Message() << "P=" << params.ranks << " N=" << params.microbatches << " G=" << params.group);
    ExpectCell(Measure("interleaved", params), cell, Compare::kExact);
  }
}

// Forwards and backwards take one slot each.
TEST(Acceptance, ChimeraInSlots) {
  const std::vector<std::tuple<int, int, int, const char*>> rows = {{4, 4, 2, "10"}, {4, 8, 2, "18"},  {4, 12, 2, "26"},
                                                                    {8, 8, 2, "22"}, {8, 16, 2, "38"}, {8, 8, 4, "18"},
                                                                    {8, 16, 4, "34"}};
  for (const auto& [ranks, microbatches, lanes, slots] : rows) {
    SCOPED_TRACE(testing::Message() << "P=" << ranks << " N=" << microbatches << " lanes=" << lanes);
    const ScheduleParams params = {.ranks = ranks,
                                   .microbatches = microbatches,
                                   .costs = {.forward = 1, .backward = 1, .weight = 0},
                                   .lanes = lanes};
    ExpectRatio("makespan", Measure("chimera", params).makespan, Exactly(slots), Compare::kExact);
  }
}

// F = 1, B = 2 = 1.2 + 0.8, P = 4, N = 16. Each rank computes for 48; the makespans and spans include its idle time.
TEST(Acceptance, UnequalTimes) {
  const ScheduleParams params = {.ranks = 4, .microbatches = 16, .costs = {.forward = 5, .backward = 10, .weight = 4}};
  struct Row {
    const char* name;
    const char* makespan;
    const char* span;
    Compare compare = Compare::kExact;
  };
  for (const Row& row : std::vector<Row>{{"1f1b", "57", ""},
                                         {"zb-h1", "52.2", ""},
                                         {"zb-h2", "", "49.8"},
                                         {"zb-v", "", "49.2", Compare::kAtMost},
                                         {"v-half", "51.9", "", Compare::kAtMost},
                                         {"v-min", "63.2", "", Compare::kAtMost}}) {
    SCOPED_TRACE(row.name);
    const Measured measured = Measure(row.name, params, 5);
    if (*row.makespan) ExpectRatio("makespan", measured.makespan, Exactly(row.makespan), row.compare);
    if (*row.span) ExpectRatio("span", measured.span, Exactly(row.span), row.compare);
  }
}

// DualPipe with P = 8, N = 20. DualPipeV has half the ranks, each with two stages whose forward takes 1.
TEST(Acceptance, OverlappedPairs) {
  const std::vector<std::tuple<int64_t, const char*, const char*>> rows = {
      {6, "66", "60"}, {5, "59", "55.5"}, {4, "52", "51"}};
  for (const auto& [pair, makespan, busy] : rows) {
    SCOPED_TRACE(testing::Message() << "F&B = " << pair << "/2");
    {
      const Measured measured = Measure(
          "dualpipe",
          {.ranks = 8, .microbatches = 20, .costs = {.forward = 2, .backward = 4, .weight = 2, .pair = pair}}, 2);
      ExpectRatio("makespan", measured.makespan, Exactly(makespan), Compare::kExact);
      ExpectRatio("busy", measured.ideal, Exactly(busy), Compare::kExact);
    }
    {
      const Measured measured = Measure(
          "dualpipev",
          {.ranks = 4, .microbatches = 10, .costs = {.forward = 4, .backward = 8, .weight = 4, .pair = 2 * pair}}, 2);
      ExpectRatio("makespan", measured.makespan, Exactly(makespan), Compare::kExact);
    }
  }
}

// N = P, F = 1, B = 2, with 1, 2 and 4 waves.
TEST(Acceptance, Hanayo) {
  const std::vector<std::tuple<int, int, const char*>> rows = {{4, 1, "18"}, {4, 2, "15.25"}, {4, 4, "13.625"},
                                                               {8, 1, "38"}, {8, 2, "31.5"},  {8, 4, "27.75"}};
  for (const auto& [ranks, waves, makespan] : rows) {
    SCOPED_TRACE(testing::Message() << "P=" << ranks << " W=" << waves);
    ExpectRatio("makespan", Measure("hanayo", {.ranks = ranks, .microbatches = ranks, .waves = waves}).makespan,
                Exactly(makespan), Compare::kAtMost);
  }
}

// An evaluation consists of GPipe's forwards: N + P - 1 slots. DeepSpeed's training schedule is 1F1B with F = B = 1:
// 2(N + P - 1) steps, and max(2, min(S - s, N)) buffers in stage s of S.
TEST(Acceptance, SlotsOfEvaluationAndOfDeepSpeed) {
  for (int p = 1; p <= 8; ++p) {
    for (int n = 1; n <= 16; ++n) {
      const ScheduleParams params = {
          .ranks = p, .microbatches = n, .costs = {.forward = 1, .backward = 1, .weight = 0}};
      const PipelineSchedule gpipe = *BuildSchedule(**FindSchedule("gpipe"), params);
      const ScheduleTiming timing = *TimeSchedule(gpipe, n, params.costs);
      int64_t last = 0;
      for (int rank = 0; rank < p; ++rank) {
        for (size_t i = 0; i < gpipe.order[rank].size(); ++i) {
          if (gpipe.order[rank][i].kind == SlotKind::kForward) last = std::max(last, timing.end[rank][i]);
        }
      }
      EXPECT_EQ(last, n + p - 1);
      const Measured measured = Measure("1f1b", params);
      EXPECT_EQ(measured.makespan, (Ratio{2 * (n + p - 1), 1}));
      for (int rank = 0; rank < p; ++rank) EXPECT_EQ(measured.peaks[rank], (Ratio{std::min(p - rank, n), 1}));
    }
  }
}

}  // namespace
}  // namespace weft
