// The CPU executor follows the schedule. The test compiles every registered schedule for a small model, runs one step,
// and checks the order of the slots and that no rank holds more microbatches than the schedule does. By default it runs
// a sample of the sizes; with --full it runs up to P = 8 pipe ranks and up to N = 24 microbatches, in steps.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "planner/action_slots.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/full.h"

namespace weft {
namespace {

void AppendSlots(const Action& action, std::vector<Slot>* slots) {
  for (const Slot& slot : planner::SlotsOf(action)) slots->push_back(slot);
}

// Returns the slots of the first repetition for each pipe rank, in the order in which they started.
std::vector<std::vector<Slot>> Executed(const Program& program, const Trace& trace) {
  std::vector<std::vector<Slot>> order;
  for (const RankTrace& rank : trace.ranks()) {
    const Template* own = nullptr;
    for (const Template& t : program.templates()) {
      if (t.name() == rank.template_name()) own = &t;
    }
    std::map<int, const Action*> actions;
    for (const Action& action : own->body()) actions[action.id()] = &action;
    std::map<int, int64_t> start;
    for (const TraceEvent& event : rank.events()) {
      if (event.repetition() != 0) continue;
      auto [found, added] = start.try_emplace(event.action(), event.start_ps());
      if (!added) found->second = std::min(found->second, event.start_ps());
    }
    std::vector<std::pair<int64_t, int>> begun;
    for (const auto& [action, ps] : start) begun.emplace_back(ps, action);
    // A stream runs one step at a time, so steps with equal start times (the clock did not advance) are in list order.
    std::sort(begun.begin(), begun.end());
    std::vector<Slot>& slots = order.emplace_back();
    for (const auto& [ps, action] : begun) AppendSlots(*actions.at(action), &slots);
  }
  return order;
}

std::vector<Slot> SlotsOfKind(const std::vector<Slot>& slots, bool forward) {
  std::vector<Slot> kept;
  for (const Slot& slot : slots) {
    if ((slot.kind == SlotKind::kForward) == forward) kept.push_back(slot);
  }
  return kept;
}

struct Case {
  const ScheduleEntry* entry;
  ScheduleParams params;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  std::mt19937_64 random(7);
  for (const ScheduleEntry& entry : Schedules()) {
    std::vector<Case> valid;
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int microbatches = 1; microbatches <= 24; microbatches += full && microbatches > 8 ? 3 : 1) {
        std::vector<ScheduleParams> variants(1);
        if (entry.takes & kTakesVirtualStages) variants.push_back({.virtual_stages = 2});
        if (entry.takes & kTakesWaves) variants.push_back({.waves = 2});
        if (entry.takes & kTakesLanes) variants.push_back({.lanes = 4});
        if (entry.takes & kTakesLimit) variants.push_back({.limit = 3});
        if (entry.takes & kTakesScaling) variants.push_back({.scaling = Scaling::kForwardDoubling});
        for (ScheduleParams params : variants) {
          params.ranks = ranks;
          params.microbatches = microbatches;
          const auto built = BuildSchedule(entry, params);
          if (built.ok() && !built->asynchrony) valid.push_back({&entry, params});
        }
      }
    }
    if (!full) {
      std::shuffle(valid.begin(), valid.end(), random);
      if (valid.size() > 3) valid.resize(3);
    }
    cases.insert(cases.end(), valid.begin(), valid.end());
  }
  return cases;
}

TEST(ExecutionOrderTest, IsTheSchedules) {
  const std::string path = ::testing::TempDir() + "/tiny.txt";
  ASSERT_TRUE(WriteTinyText(path).ok());
  int compared = 0;
  for (const Case& c : Cases()) {
    const PipelineSchedule schedule = *BuildSchedule(*c.entry, c.params);
    TinyPlan plan{.pipe = c.params.ranks, .schedule = std::string(c.entry->name), .exact = true};
    plan.steps = 1;
    plan.batch = c.params.microbatches;
    plan.layers = std::max(1, schedule.stages - 2);
    if (c.params.virtual_stages) absl::StrAppend(&plan.schedule_fields, " virtual_stages: ", c.params.virtual_stages);
    if (c.params.waves) absl::StrAppend(&plan.schedule_fields, " waves: ", c.params.waves);
    if (c.params.lanes) absl::StrAppend(&plan.schedule_fields, " lanes: ", c.params.lanes);
    if (c.params.limit) absl::StrAppend(&plan.schedule_fields, " limit: ", c.params.limit);
    if (c.params.scaling != Scaling::kConcatenation) plan.schedule_fields += " scaling: FORWARD_DOUBLING";
    SCOPED_TRACE(plan.Name());
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto data = OpenTinyText(path, *program);
    ASSERT_TRUE(data.ok()) << data.status();
    exec::RunOptions options;
    options.trace_repetitions = 1;
    const absl::StatusOr<exec::RunResult> result = exec::RunInProcess(*program, **data, options);
    ASSERT_TRUE(result.ok()) << result.status();
    PipelineSchedule executed = schedule;
    executed.order = Executed(*program, *result->trace);
    ASSERT_EQ(executed.order.size(), schedule.order.size());
    EXPECT_EQ(CheckSchedule(executed, c.params.microbatches), absl::OkStatus());

    // Hanayo orders slots by time, so its order depends on the slot costs that the compiler assumed. The test compares
    // Hanayo's slots with the compiled lists instead.
    const bool fixed = c.entry->name != "hanayo";
    for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
      SCOPED_TRACE(absl::StrCat("rank ", rank));
      const std::vector<Slot>& did = executed.order[rank];
      if (schedule.message_driven) {
        for (const bool forward : {true, false}) {
          EXPECT_TRUE(SlotsOfKind(did, forward) == SlotsOfKind(schedule.order[rank], forward));
        }
        int held = 0, most = 0;
        for (const Slot& slot : did) most = std::max(most, held += slot.kind == SlotKind::kForward ? 1 : -1);
        EXPECT_LE(most, schedule.message_driven->limit);
      } else if (fixed) {
        EXPECT_TRUE(did == schedule.order[rank]);
        ++compared;
      } else {
        std::vector<Slot> list;
        for (const Action& action : program->templates(static_cast<int>(rank)).body()) AppendSlots(action, &list);
        EXPECT_TRUE(did == list);
      }
    }
  }
  EXPECT_GE(compared, 50);
}

}  // namespace
}  // namespace weft
