// Tests the properties that every schedule of the registry must have, for all small sizes and all its parameters.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kMaxRanks = 8;
constexpr int kMaxMicrobatches = 24;
// Costs of forward, backward and weight gradient. 1:2 is the usual ratio of forward to backward; 1:3 occurs with
// recompute. The others catch formulas that assume these ratios.
const std::vector<SlotCosts> kCosts = {{1, 2, 1}, {1, 1, 0}, {1, 3, 1}, {2, 1, 1}, {5, 10, 4}, {5, 7, 6}, {10, 1, 0}};

// All combinations of values of the optional parameters that a schedule takes; 0 lets the schedule choose.
std::vector<ScheduleParams> Variants(const ScheduleEntry& entry) {
  std::vector<ScheduleParams> all = {{}};
  auto vary = [&](uint32_t bit, int ScheduleParams::* field, const std::vector<int>& values) {
    if ((entry.takes & bit) == 0) return;
    std::vector<ScheduleParams> more;
    for (const ScheduleParams& params : all) {
      for (int value : values) {
        more.push_back(params);
        more.back().*field = value;
      }
    }
    all = more;
  };
  vary(kTakesVirtualStages, &ScheduleParams::virtual_stages, {0, 1, 2, 3, 4});
  vary(kTakesWaves, &ScheduleParams::waves, {0, 1, 2, 4});
  vary(kTakesLanes, &ScheduleParams::lanes, {0, 2, 4, 8});
  vary(kTakesLimit, &ScheduleParams::limit, {0, 1, 2, 5, 8});
  vary(kTakesGroup, &ScheduleParams::group, {0, 2, 5, 8, 24});
  if ((entry.takes & kTakesScaling) != 0) {
    const std::vector<ScheduleParams> before = all;
    for (Scaling scaling : {Scaling::kForwardDoubling, Scaling::kBackwardHalving}) {
      for (ScheduleParams params : before) {
        params.scaling = scaling;
        all.push_back(params);
      }
    }
  }
  return all;
}

std::string Text(const ScheduleEntry& entry, const ScheduleParams& p) {
  return absl::StrCat(entry.name, " P=", p.ranks, " N=", p.microbatches, " F=", p.costs.forward,
                      " B=", p.costs.backward, " W=", p.costs.weight, " v=", p.virtual_stages, " waves=", p.waves,
                      " lanes=", p.lanes, " limit=", p.limit, " group=", p.group,
                      " scaling=", static_cast<int>(p.scaling));
}

// True if the schedule must take this size.
bool MustBeValid(const std::string& name, const ScheduleParams& p) {
  static const std::set<std::string> kAll = {"1f1b",   "axonn",      "eager-1f1b", "gems", "gpipe",
                                             "hanayo", "looped-bfs", "zb-h1",      "zb-h2"};
  if (kAll.count(name)) return true;
  if (name == "interleaved") return p.virtual_stages != 1 && p.group == 0;
  if (name == "pipedream") return p.microbatches >= p.ranks - 1;
  if (name == "pipedream-2bw") return p.microbatches >= p.ranks;
  if (name == "dualpipe") return p.ranks % 2 == 0 && p.microbatches % 2 == 0 && p.microbatches >= 2 * p.ranks;
  if (name == "dualpipev") return p.virtual_stages == 0 && p.microbatches >= 2 * p.ranks;
  if (name == "zb-v" || name == "v-half" || name == "v-min") return p.virtual_stages == 0 || p.virtual_stages == 2;
  if (name == "chimera") return p.ranks % 2 == 0 && p.lanes == 0 && p.scaling == Scaling::kConcatenation;
  return false;
}

// True if the schedule must refuse these parameters.
bool MustBeRefused(const std::string& name, const ScheduleParams& p) {
  const int n = p.microbatches, ranks = p.ranks;
  if (name == "interleaved") {
    if (p.virtual_stages == 1) return true;
    if (p.group == 0) return false;
    if (n < ranks) return p.group != n;
    return p.group < ranks || p.group > n || (n % p.group != 0 && n % p.group < ranks);
  }
  if (name == "pipedream") return n < ranks - 1;
  if (name == "pipedream-2bw") return n < ranks;
  if (name == "chimera" || name == "dualpipe") {
    if (ranks % 2 != 0) return true;
  }
  if (name == "dualpipe" || name == "dualpipev") {
    if (n < 2 * ranks) return true;
  }
  if (name == "dualpipe") return n % 2 != 0;
  if (name == "zb-v" || name == "v-half" || name == "v-min" || name == "dualpipev") {
    return p.virtual_stages != 0 && p.virtual_stages != 2;
  }
  return false;
}

// Calls body(entry, params, schedule) for all parameters that a schedule takes. A refusal must name a parameter and its
// allowed values.
template <typename Body>
void ForAll(const std::vector<SlotCosts>& costs, const Body& body) {
  for (const ScheduleEntry& entry : Schedules()) {
    const std::string name(entry.name);
    int valid = 0;
    for (ScheduleParams params : Variants(entry)) {
      for (params.ranks = 1; params.ranks <= kMaxRanks; ++params.ranks) {
        for (params.microbatches = 1; params.microbatches <= kMaxMicrobatches; ++params.microbatches) {
          for (const SlotCosts& cost : costs) {
            // To save time, unusual ratios run at half of the sizes only.
            if (params.microbatches > kMaxMicrobatches / 2 && &cost != &costs.front()) continue;
            params.costs = cost;
            const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, params);
            if (schedule.ok()) {
              EXPECT_FALSE(MustBeRefused(name, params)) << Text(entry, params);
              ++valid;
              body(entry, params, *schedule);
            } else {
              EXPECT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
              EXPECT_FALSE(MustBeValid(name, params)) << schedule.status();
              const absl::string_view message = schedule.status().message();
              EXPECT_TRUE(absl::StrContains(message, " = ") &&
                          (absl::StrContains(message, "allowed") || absl::StrContains(message, "nearest valid")))
                  << schedule.status();
            }
            if (testing::Test::HasFailure()) {
              ADD_FAILURE() << Text(entry, params);
              return;
            }
          }
        }
      }
    }
    // DualPipe is the strictest schedule: it takes 20 of these sizes.
    EXPECT_GE(valid, 20) << name;
  }
}

TEST(Schedules, SortedByNameWithSource) {
  ASSERT_FALSE(Schedules().empty());
  for (size_t i = 0; i < Schedules().size(); ++i) {
    EXPECT_FALSE(Schedules()[i].source.empty()) << Schedules()[i].name;
    if (i > 0) {
      EXPECT_LT(Schedules()[i - 1].name, Schedules()[i].name);
    }
    EXPECT_EQ(*FindSchedule(Schedules()[i].name), &Schedules()[i]);
  }
}

TEST(Schedules, UnknownNameListsKnownAndNearest) {
  const absl::Status status = FindSchedule("gpip").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown schedule 'gpip'; nearest: 'gpipe'; known: 1f1b, "));
}

TEST(Schedules, RefuseParametersOfOthers) {
  EXPECT_THAT(std::string(BuildSchedule(**FindSchedule("gpipe"), {.virtual_stages = 2}).status().message()),
              AllOf(HasSubstr("schedule 'gpipe' does not take virtual_stages; those that do: "),
                    HasSubstr(", interleaved, "), Not(HasSubstr("1f1b"))));
  EXPECT_THAT(std::string(BuildSchedule(**FindSchedule("looped-bfs"), {.limit = 2}).status().message()),
              HasSubstr("does not take limit; those that do: axonn, "));
}

TEST(Schedules, PassTheChecker) {
  ForAll({{1, 2, 1}}, [](const ScheduleEntry& entry, const ScheduleParams& params, const PipelineSchedule& schedule) {
    EXPECT_EQ(schedule.order.size(), params.ranks);
    EXPECT_EQ(CheckSchedule(schedule, params.microbatches), absl::OkStatus());
    // If the definition leaves the order free, ours is ascending. So far no definition requires another order.
    EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
  });
}

void ExpectRatio(const char* what, int64_t measured, int64_t unit, const Ratio& expected, bool bound) {
  const __int128 a = __int128{measured} * expected.denominator, b = __int128{expected.numerator} * unit;
  EXPECT_TRUE(bound ? a <= b : a == b) << what << ": measured " << measured << "/" << unit << ", expected "
                                       << (bound ? "at most " : "") << expected.numerator << "/"
                                       << expected.denominator;
}

// Checks laws that need no formula, and the closed form if there is one.
TEST(Schedules, TakeWhatTheClosedFormsSay) {
  std::map<std::string, int> formulas;
  ForAll(kCosts, [&](const ScheduleEntry& entry, const ScheduleParams& params, const PipelineSchedule& schedule) {
    const absl::StatusOr<ScheduleTiming> timed = TimeSchedule(schedule, params.microbatches, params.costs);
    ASSERT_TRUE(timed.ok()) << timed.status();
    const ScheduleTiming& timing = *timed;
    const int64_t work = (params.costs.forward + params.costs.backward) * timing.unit;
    int64_t busy = 0;
    for (const RankTiming& rank : timing.ranks) {
      busy += rank.busy;
      EXPECT_EQ(rank.busy + rank.idle, timing.makespan);
      EXPECT_EQ(rank.warm_up + rank.dependency + rank.communication + rank.tail, rank.idle);
      EXPECT_EQ(rank.communication, 0);
      EXPECT_GE(std::min({rank.warm_up, rank.dependency, rank.tail}), 0);
      EXPECT_LE(rank.peak_activations, (params.microbatches + (schedule.asynchrony ? params.ranks : 0)) * timing.unit);
    }
    // No rank finishes faster than its own work takes, and no schedule faster than one microbatch through all stages.
    EXPECT_EQ(busy, params.ranks * params.microbatches * work);
    EXPECT_GE(timing.makespan, timing.span);
    EXPECT_GE(timing.span, timing.ideal);
    EXPECT_GE(timing.ideal, params.microbatches * work);
    EXPECT_GE(timing.period, schedule.asynchrony ? timing.ideal : timing.makespan);
    // A microbatch does not wait for weight gradients.
    bool halves = false;
    for (const std::vector<Slot>& order : schedule.order) {
      for (const Slot& slot : order) halves = halves || slot.kind == SlotKind::kBackwardWeight;
    }
    EXPECT_GE(timing.makespan, params.ranks * (work - (halves ? params.costs.weight * timing.unit : 0)));

    const std::optional<ClosedForm> form = entry.closed_form(params);
    if (!form) return;
    ++formulas[std::string(entry.name)];
    if (form->makespan) {
      ExpectRatio("makespan", timing.makespan, timing.unit, *form->makespan, form->makespan_is_bound);
    }
    if (form->span) ExpectRatio("span", timing.span, timing.unit, *form->span, false);
    if (form->peak_activations.empty()) return;
    ASSERT_EQ(form->peak_activations.size(), params.ranks);
    for (int rank = 0; rank < params.ranks; ++rank) {
      ExpectRatio("peak", timing.ranks[rank].peak_activations, timing.unit, form->peak_activations[rank], false);
    }
  });
  // A formula that never applies tests nothing.
  for (const char* name : {"1f1b", "eager-1f1b", "gems", "gpipe", "interleaved", "looped-bfs", "pipedream"}) {
    EXPECT_GT(formulas[name], 100) << name;
  }
}

// With slow edges the times still add up, and no schedule becomes faster.
TEST(Schedules, LatencyIsAccountedFor) {
  ForAll({{2, 4, 2}}, [](const ScheduleEntry&, const ScheduleParams& params, const PipelineSchedule& schedule) {
    SlotCosts slow = params.costs;
    slow.p2p = 3;
    const ScheduleTiming free = *TimeSchedule(schedule, params.microbatches, params.costs);
    const ScheduleTiming timing = *TimeSchedule(schedule, params.microbatches, slow);
    // A message-driven schedule may by chance choose better when messages come late.
    if (!schedule.message_driven) {
      EXPECT_GE(timing.makespan, free.makespan);
    }
    for (size_t rank = 0; rank < timing.ranks.size(); ++rank) {
      const RankTiming& times = timing.ranks[rank];
      EXPECT_EQ(times.busy, free.ranks[rank].busy);
      EXPECT_EQ(times.warm_up + times.dependency + times.communication + times.tail, times.idle);
      EXPECT_GE(std::min({times.warm_up, times.dependency, times.communication, times.tail}), 0);
    }
  });
}

// A frozen schedule is static, passes the checker, and takes the same time.
TEST(Schedules, FreezeKeepsTheTime) {
  ForAll({{1, 2, 1}}, [](const ScheduleEntry&, const ScheduleParams& params, const PipelineSchedule& schedule) {
    if (!schedule.message_driven) return;
    const absl::StatusOr<PipelineSchedule> frozen = FreezeSchedule(schedule, params.microbatches, params.costs);
    ASSERT_TRUE(frozen.ok()) << frozen.status();
    EXPECT_FALSE(frozen->message_driven.has_value());
    EXPECT_EQ(CheckSchedule(*frozen, params.microbatches), absl::OkStatus());
    const ScheduleTiming a = *TimeSchedule(schedule, params.microbatches, params.costs);
    const ScheduleTiming b = *TimeSchedule(*frozen, params.microbatches, params.costs);
    EXPECT_EQ(a.makespan, b.makespan);
    for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
      EXPECT_EQ(a.ranks[rank].peak_activations, b.ranks[rank].peak_activations);
      EXPECT_LE(a.ranks[rank].peak_activations, std::min(schedule.message_driven->limit, params.microbatches));
    }
  });
}

TEST(Schedules, RefuseImpossibleParams) {
  for (const ScheduleEntry& entry : Schedules()) {
    SCOPED_TRACE(std::string(entry.name));
    auto message = [&](ScheduleParams params) { return std::string(entry.build(params).status().message()); };
    EXPECT_THAT(message({.ranks = 0}), HasSubstr("ranks = 0; allowed: 1 to 22369621, nearest valid: 1"));
    EXPECT_THAT(message({.ranks = -5}), HasSubstr("ranks = -5"));
    EXPECT_THAT(message({.ranks = 4, .microbatches = 0}), HasSubstr("microbatches = 0; allowed: 1 to "));
    EXPECT_THAT(message({.ranks = 4, .microbatches = 1 << 30}), HasSubstr("microbatches = 1073741824; allowed: 1 to "));
    EXPECT_THAT(message({.ranks = INT32_MAX, .microbatches = INT32_MAX}), HasSubstr("nearest valid: 22369621"));
    EXPECT_THAT(message({.ranks = 22369621, .microbatches = 2}), HasSubstr("allowed: "));
    // The error names the larger of ranks and microbatches, whatever the schedule's number of stages per rank.
    EXPECT_THAT(message({.ranks = 22369621, .microbatches = 8}), HasSubstr("nearest valid: ranks = "));
    EXPECT_THAT(message({.ranks = 8, .microbatches = 22369621}), HasSubstr("nearest valid: microbatches = "));
    const ScheduleParams valid = {.ranks = 4, .microbatches = 8};
    auto costs = [&](SlotCosts costs) {
      ScheduleParams params = valid;
      params.costs = costs;
      return message(params);
    };
    EXPECT_THAT(costs({.forward = 0}), HasSubstr("forward = 0"));
    EXPECT_THAT(costs({.backward = -1}), HasSubstr("backward = -1"));
    EXPECT_THAT(costs({.backward = INT64_MAX}), HasSubstr("nearest valid: 1125899906842624"));
    EXPECT_THAT(costs({.weight = 3}), HasSubstr("weight = 3; allowed: 0 to 2"));
    EXPECT_THAT(costs({.pair = -1}), HasSubstr("pair = -1; allowed: 0 to "));
    EXPECT_THAT(costs({.p2p = -1}), HasSubstr("p2p = -1; allowed: 0 to "));
    EXPECT_THAT(message({.ranks = 4096, .microbatches = 512, .costs = {.forward = int64_t{1} << 42}}),
                HasSubstr("forward + backward = 4398046511106 for 4096 ranks and 512 microbatches; allowed: 2 to"));
    for (int ScheduleParams::* field : {&ScheduleParams::virtual_stages, &ScheduleParams::waves, &ScheduleParams::lanes,
                                        &ScheduleParams::limit, &ScheduleParams::group}) {
      for (int value : {-1, INT32_MAX}) {
        ScheduleParams params = valid;
        params.*field = value;
        EXPECT_THAT(message(params), HasSubstr("; allowed: ")) << value;
      }
    }
  }
}

}  // namespace
}  // namespace weft
