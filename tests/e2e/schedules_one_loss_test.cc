// N plans, one loss, over the registry of schedules: every synchronous schedule gives the losses, gradient norms and
// weights of one rank. By default the test runs a sample of the cases; with --full all of them.
//
// Results are equal bit for bit with in-order accumulation if a stage has one replica and its backwards are in
// ascending microbatch order, always bit for bit under exact accumulation, and within 1e-5 otherwise.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/full.h"

namespace weft {
namespace {

struct Case {
  std::string schedule;
  int pipe = 2;
  int microbatches = 4;
  ScheduleParams params = {};
};

std::string Fields(const ScheduleParams& p) {
  std::string text;
  if (p.virtual_stages != 0) absl::StrAppend(&text, " virtual_stages: ", p.virtual_stages);
  if (p.waves != 0) absl::StrAppend(&text, " waves: ", p.waves);
  if (p.lanes != 0) absl::StrAppend(&text, " lanes: ", p.lanes);
  if (p.limit != 0) absl::StrAppend(&text, " limit: ", p.limit);
  if (p.group != 0) absl::StrAppend(&text, " group: ", p.group);
  if (p.scaling == Scaling::kForwardDoubling) absl::StrAppend(&text, " scaling: FORWARD_DOUBLING");
  return text;
}

// Every synchronous schedule at several sizes, with each optional parameter that it takes. Leaves out sizes that the
// schedule's own constraints exclude.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const ScheduleEntry& entry : Schedules()) {
    for (const int pipe : {2, 3, 4}) {
      for (const int microbatches : {2, 4, 8, 12}) {
        std::vector<ScheduleParams> variants(1);
        if (entry.takes & kTakesVirtualStages) variants.push_back({.virtual_stages = 2});
        if (entry.takes & kTakesWaves) variants.push_back({.waves = 2});
        if (entry.takes & kTakesLanes) variants.push_back({.lanes = 4});
        if (entry.takes & kTakesLimit) variants.push_back({.limit = 2});
        if (entry.takes & kTakesGroup) variants.push_back({.group = microbatches});
        if (entry.takes & kTakesScaling) variants.push_back({.scaling = Scaling::kForwardDoubling});
        for (ScheduleParams params : variants) {
          params.ranks = pipe;
          params.microbatches = microbatches;
          const absl::StatusOr<PipelineSchedule> built = BuildSchedule(entry, params);
          if (!built.ok() || built->asynchrony || built->stages > 18) continue;
          cases.push_back({std::string(entry.name), pipe, microbatches, params});
        }
      }
    }
  }
  return cases;
}

TinyPlan PlanOf(const Case& c, bool exact) {
  TinyPlan plan{.pipe = c.pipe, .schedule = c.schedule, .exact = exact};
  plan.steps = 4;
  plan.batch = c.microbatches;
  plan.layers = 16;
  plan.schedule_fields = Fields(c.params);
  return plan;
}

// True if gradients are added in the same order as on one rank.
bool KeepsOrder(const Case& c) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule(c.schedule), c.params);
  if (!CheckAccumulationOrder(schedule).ok()) return false;
  for (const auto& lane : schedule.placement) {
    if (lane != schedule.placement[0]) return false;
  }
  return true;
}

class References {
 public:
  const Outcome& Get(int microbatches, bool exact) {
    auto [found, added] = outcomes_.try_emplace({microbatches, exact});
    if (added) {
      const auto outcome = TrainTiny(PlanOf({"gpipe", 1, microbatches}, exact));
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      found->second = *outcome;
    }
    return found->second;
  }

 private:
  std::map<std::pair<int, bool>, Outcome> outcomes_;
};

TEST(SchedulesOneLossTest, EverySynchronousScheduleTrainsAlike) {
  References references;
  std::map<std::string, int> runs;
  int in_order = 0;
  const std::vector<Case> cases = Cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    // The sample has two cases of each schedule, far apart in the list.
    int& done = runs[c.schedule];
    if (!full && (done >= 2 || i % 5 != (done == 0 ? i % 5 : 3))) continue;
    ++done;
    for (const bool exact : {false, true}) {
      if (!exact && !CheckAccumulationOrder(*BuildSchedule(**FindSchedule(c.schedule), c.params)).ok()) continue;
      const TinyPlan plan = PlanOf(c, exact);
      const auto outcome = TrainTiny(plan);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      if (exact || KeepsOrder(c)) {
        ExpectSame(*outcome, references.Get(c.microbatches, exact), plan.Name());
        in_order += !exact;
      } else {
        ExpectClose(*outcome, references.Get(c.microbatches, exact), plan.Name());
      }
    }
  }
  // Every schedule except the two asynchronous ones must have run.
  EXPECT_EQ(runs.size() + 2, Schedules().size());
  EXPECT_GE(in_order, 10);
}

TEST(SchedulesOneLossTest, ReplicatedStagesAndDataReplicasTogether) {
  References references;
  for (const char* schedule : {"chimera", "dualpipe", "gems", "hanayo", "zb-v"}) {
    Case c{schedule, 2, 4};
    TinyPlan plan = PlanOf(c, true);
    plan.data = 2;
    plan.batch = 8;
    const auto outcome = TrainTiny(plan);
    ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    ExpectSame(*outcome, references.Get(8, true), plan.Name());
  }
}

// The options that place transfers and gradient synchronization change only times.
TEST(SchedulesOneLossTest, PlacementOfCommunicationDoesNotMatter) {
  References references;
  for (const char* fields : {"gradient_sync: LAZY", "gradient_sync: EAGER_OPT", "transfer_placement: DEFERRED",
                             "transfer_placement: FASTEST", "group_transfers: true",
                             "receive_buffers: 3 send_buffers: 1", "step_barrier: true"}) {
    for (const char* schedule : {"1f1b", "chimera", "interleaved", "hanayo", "axonn"}) {
      TinyPlan plan = PlanOf({schedule, 2, 4}, true);
      plan.plan_fields = fields;
      const auto outcome = TrainTiny(plan);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      ExpectSame(*outcome, references.Get(4, true), plan.Name());
    }
  }
}

// `freeze` turns the simulated step of a message-driven schedule into a static program.
TEST(SchedulesOneLossTest, FrozenSchedulesTrainAlike) {
  References references;
  for (const bool exact : {false, true}) {
    for (const int pipe : {2, 4}) {
      TinyPlan plan = PlanOf({"axonn", pipe, 8}, exact);
      plan.schedule_fields = "freeze: true limit: 3";
      const auto outcome = TrainTiny(plan);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      ExpectSame(*outcome, references.Get(8, exact), plan.Name());
    }
  }
}

// With backward halving, a forward computes the recipe's microbatch, and a backward computes half of it. The gradients
// equal those of a plan whose microbatches are the halves, because both plans sum one product per half. With one
// replica of each stage (chimera-wave), they are equal bit for bit even with in-order accumulation.
TEST(SchedulesOneLossTest, HalvedBackwardsSumHalfProducts) {
  for (const bool exact : {false, true}) {
    TinyPlan halves{.pipe = 1, .schedule = "gpipe", .exact = exact};
    halves.steps = 4;
    halves.layers = 6;
    const auto expected = TrainTiny(halves);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const int pipe : {2, 4}) {
      for (const char* schedule : {"chimera", "chimera-wave"}) {
        TinyPlan plan = halves;
        plan.pipe = pipe;
        plan.schedule = schedule;
        plan.microbatch = 2;
        plan.schedule_fields = "scaling: BACKWARD_HALVING";
        const auto outcome = TrainTiny(plan);
        ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
        if (exact || std::string(schedule) == "chimera-wave") {
          ExpectSame(*outcome, *expected, plan.Name());
        } else {
          ExpectClose(*outcome, *expected, plan.Name());
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
