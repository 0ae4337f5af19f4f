// A corrupt schedule given as a file is refused, or trains to the right gradients, bit for bit.
//
// A random slot of a valid schedule is dropped, duplicated, moved, swapped with another or changed in one of its
// fields. Most results are no valid schedules, and the reader of schedules refuses them. All others must compile, run,
// and train as one rank does.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/schedule_text.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/full.h"

namespace weft {
namespace {

constexpr int kMicrobatches = 4;

TinyPlan PlanWith(int pipe, const std::string& definition) {
  TinyPlan plan{.pipe = pipe, .schedule = "", .exact = true};
  plan.steps = 2;
  plan.batch = kMicrobatches;
  plan.layers = 8;
  std::string quoted;
  for (const char c : definition) quoted += c == '\n' ? "\\n" : std::string(1, c);
  plan.schedule_fields = absl::StrCat("definition: \"", quoted, "\"");
  return plan;
}

// Makes one random change to the schedule.
void Corrupt(std::mt19937_64& random, PipelineSchedule* schedule) {
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<Slot>& order = schedule->order[below(schedule->order.size())];
  if (order.empty()) return;
  const size_t i = below(order.size());
  // Fields that no slot of the schedule uses are not changed.
  auto any = [&](auto has) {
    return std::any_of(schedule->order.begin(), schedule->order.end(),
                       [&](const std::vector<Slot>& list) { return std::any_of(list.begin(), list.end(), has); });
  };
  switch (below(12)) {
    case 0:
      order.erase(order.begin() + i);
      break;
    case 1:
      order.insert(order.begin() + below(order.size() + 1), Slot(order[i]));
      break;
    case 2:
      order[i].microbatch = static_cast<int32_t>(below(kMicrobatches));
      break;
    case 3: {
      const Slot slot = order[i];
      order.erase(order.begin() + i);
      order.insert(order.begin() + below(order.size() + 1), slot);
      break;
    }
    case 4:
      order[i].stage = static_cast<int32_t>(below(schedule->stages));
      break;
    case 5:
      if (schedule->lanes > 1) order[i].lane = static_cast<int16_t>(below(schedule->lanes));
      break;
    case 6:
      if (any([](const Slot& slot) { return slot.width > 1; })) order[i].width = 3 - order[i].width;
      break;
    case 7:
      if (any([](const Slot& slot) { return slot.paired; })) order[i].paired = !order[i].paired;
      break;
    default:
      // Swapping neighbors keeps more schedules valid than any other change.
      if (i + 1 < order.size()) std::swap(order[i], order[i + 1]);
      break;
  }
}

TEST(CorruptScheduleTest, IsRefusedOrTrainsRight) {
  const auto reference = Train([] {
    TinyPlan plan = PlanWith(1, "");
    plan.schedule = "gpipe";
    plan.schedule_fields = "";
    return plan;
  }());
  ASSERT_TRUE(reference.ok()) << reference.status();
  constexpr uint64_t kSeed = 20240917;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  struct Valid {
    PipelineSchedule schedule;
    int pipe;
  };
  std::vector<Valid> valid;
  for (const ScheduleEntry& entry : Schedules()) {
    for (const int pipe : {2, 4}) {
      for (const Scaling scaling : {Scaling::kConcatenation, Scaling::kForwardDoubling}) {
        const auto built = BuildSchedule(entry, {.ranks = pipe, .microbatches = kMicrobatches, .scaling = scaling});
        if (!built.ok() || built->asynchrony || built->stages > 10) continue;
        valid.push_back({*built, pipe});
      }
    }
  }
  ASSERT_GE(valid.size(), 10u);
  int refused = 0, ran = 0;
  const int cases = full ? 10000 : 400;
  for (int i = 0; i < cases; ++i) {
    const Valid& from = valid[random() % valid.size()];
    NamedSchedule named{.name = "corrupt", .schedule = from.schedule, .microbatches = kMicrobatches};
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) Corrupt(random, &named.schedule);
    const std::string text = FormatSchedule(named);
    const auto result = Train(PlanWith(from.pipe, text));
    if (!result.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(result.status())) << result.status() << "\n" << text;
      // The reader of schedules must refuse the text too; otherwise the compiler refuses a valid schedule.
      const auto read = ScheduleFromDefinition(text, {.ranks = from.pipe, .microbatches = kMicrobatches});
      ASSERT_FALSE(read.ok()) << "a valid schedule is refused: " << result.status() << "\n" << text;
      ++refused;
      continue;
    }
    ++ran;
    ASSERT_EQ(result->report.steps_size(), reference->report.steps_size());
    for (int step = 0; step < reference->report.steps_size(); ++step) {
      const RunStep &a = result->report.steps(step), &b = reference->report.steps(step);
      ASSERT_EQ(a.loss(), b.loss()) << text;
      ASSERT_EQ(a.grad_norm(), b.grad_norm()) << text;
    }
    ASSERT_EQ(result->weights.size(), reference->weights.size());
    for (size_t t = 0; t < reference->weights.size(); ++t) {
      ASSERT_TRUE(result->weights[t].bytes == reference->weights[t].bytes) << "tensor " << t << "\n" << text;
    }
  }
  // Both outcomes must be common, or the test would prove little.
  EXPECT_GE(refused, cases / 4);
  EXPECT_GE(ran, cases / 20);
  RecordProperty("refused", refused);
  RecordProperty("ran", ran);
  std::printf("%d refused, %d ran\n", refused, ran);
}

}  // namespace
}  // namespace weft
