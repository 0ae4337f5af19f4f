// Tests the formulas of schedules that split backwards, over random sizes and times. Whatever a closed form gives must
// equal the measurement, and it must give a value wherever its file promises one.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

struct Promise {
  // The random sizes: P ranks are a multiple of `ranks_step`; the microbatches are least_per_rank * P plus 0 to 12
  // times `microbatches_step`.
  int ranks_step = 1;
  int microbatches_step = 1;
  int least_per_rank = 0;
  // Returns true if the closed form must give a makespan for these params.
  std::function<bool(const ScheduleParams&)> makespan;
};

// Cost of the input gradient.
int64_t Input(const ScheduleParams& p) { return p.costs.backward - p.costs.weight; }
bool AllEqual(const ScheduleParams& p) { return p.costs.weight == p.costs.forward && Input(p) == p.costs.forward; }

const std::map<std::string, Promise>& Promises() {
  static const auto& promises = *new std::map<std::string, Promise>{
      {"zb-h1", {.makespan = [](const ScheduleParams&) { return true; }}},
      {"zb-h2",
       {.makespan = [](const ScheduleParams& p) { return p.costs.weight <= std::min(p.costs.forward, Input(p)); }}},
      {"interleaved-zb", {.makespan = [](const ScheduleParams& p) { return p.microbatches >= p.ranks; }}},
      {"zb-v",
       {.makespan =
            [](const ScheduleParams& p) {
              return AllEqual(p) || (p.costs.weight <= p.costs.forward && p.costs.forward <= Input(p) &&
                                     p.microbatches >= 2 * p.ranks - 1);
            }}},
      {"v-half", {.makespan = [](const ScheduleParams& p) { return AllEqual(p) && p.microbatches >= p.ranks; }}},
      {"v-min", {.makespan = AllEqual}},
      {"dualpipe",
       {.ranks_step = 2,
        .microbatches_step = 2,
        .least_per_rank = 2,
        .makespan =
            [](const ScheduleParams& p) { return Input(p) == p.costs.forward && p.costs.weight <= p.costs.forward; }}},
      {"dualpipev",
       {.least_per_rank = 2,
        .makespan =
            [](const ScheduleParams& p) { return Input(p) == p.costs.forward && p.costs.weight <= p.costs.forward; }}},
  };
  return promises;
}

TEST(SplitBackwardFormulas, AreWhatIsMeasured) {
  constexpr uint32_t kSeed = 20260;
  std::mt19937 random(kSeed);
  auto draw = [&](int low, int high) { return static_cast<int>(low + random() % (high - low + 1)); };
  for (const auto& [name, promise] : Promises()) {
    const ScheduleEntry& entry = **FindSchedule(name);
    int makespans = 0, spans = 0;
    for (int lot = 0; lot < 400; ++lot) {
      ScheduleParams params;
      params.ranks = promise.ranks_step * draw(1, 8 / promise.ranks_step);
      params.microbatches = promise.least_per_rank * params.ranks + promise.microbatches_step * draw(0, 12);
      params.microbatches = std::max(params.microbatches, 1);
      const int64_t forward = draw(1, 9), input = lot % 3 == 0 ? forward : draw(1, 9);
      const int64_t weight = lot % 6 == 0 ? forward : draw(0, 9);
      params.costs = {.forward = forward, .backward = input + weight, .weight = weight};
      if (name == "interleaved-zb") params.virtual_stages = draw(1, 4);
      SCOPED_TRACE(testing::Message() << name << " seed " << kSeed << " lot " << lot << ": P=" << params.ranks
                                      << " N=" << params.microbatches << " F=" << forward << " I=" << input
                                      << " W=" << weight << " v=" << params.virtual_stages);
      const ScheduleTiming timing = *TimeSchedule(*BuildSchedule(entry, params), params.microbatches, params.costs);
      const std::optional<ClosedForm> form = entry.closed_form(params);
      ASSERT_TRUE(form.has_value());
      EXPECT_EQ(form->makespan.has_value(), promise.makespan(params));
      EXPECT_FALSE(form->makespan_is_bound);
      if (form->makespan) {
        EXPECT_EQ(*form->makespan, (Ratio{timing.makespan, timing.unit}));
        ++makespans;
      }
      if (form->span) {
        EXPECT_EQ(*form->span, (Ratio{timing.span, timing.unit}));
        ++spans;
      }
      for (size_t rank = 0; rank < form->peak_activations.size(); ++rank) {
        EXPECT_EQ(form->peak_activations[rank], (Ratio{timing.ranks[rank].peak_activations, timing.unit}));
      }
      if (HasFailure()) return;
    }
    EXPECT_GE(makespans, 25) << name;
    EXPECT_GE(spans, 25) << name;
  }
}

// With huge costs, a closed form exists, and gives either no makespan or a large one, not one that has overflowed to a
// small or negative number.
TEST(SplitBackwardFormulas, HugeCosts) {
  for (const auto& [name, promise] : Promises()) {
    ScheduleParams params = {.ranks = promise.ranks_step, .microbatches = 4096};
    params.costs = {.forward = int64_t{1} << 48, .backward = int64_t{1} << 49, .weight = int64_t{1} << 48};
    const std::optional<ClosedForm> form = (*FindSchedule(name))->closed_form(params);
    ASSERT_TRUE(form.has_value()) << name;
    if (form->makespan) {
      EXPECT_GT(form->makespan->numerator, int64_t{1} << 60) << name;
    }
  }
}

// With far more ranks than microbatches, time and space grow with the number of slots, not with the square of the
// ranks.
TEST(SplitBackward, LongPipelines) {
  for (const char* name : {"zb-h1", "zb-h2", "interleaved-zb", "zb-v", "v-half", "v-min"}) {
    const ScheduleParams params = {.ranks = 200000, .microbatches = 2};
    const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(**FindSchedule(name), params);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    int64_t slots = 0;
    for (const std::vector<Slot>& order : schedule->order) slots += static_cast<int64_t>(order.size());
    EXPECT_EQ(slots, int64_t{3} * 2 * schedule->stages) << name;
  }
}

}  // namespace
}  // namespace weft
