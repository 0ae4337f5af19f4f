// What a rank keeps between the halves of a backward changes memory and time, never bits: every schedule with split
// backwards trains to the bits of whole backwards on the same mesh, with each value of plan.between_halves.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

const std::vector<std::string>& Values() {
  static const auto& values = *new std::vector<std::string>{"OWN_ROWS", "GATHERED_ROWS", "EVERYTHING"};
  return values;
}

struct Case {
  std::string schedule;
  // Axes besides the pipeline, and further fields of the plan.
  std::string mesh = "";
  std::string fields = "";
  std::string family = "gpt2";
  bool exact = false;
  bool bf16 = false;
  bool recompute = false;
};

TinyPlan PlanOf(const Case& c, const std::string& schedule, int pipe) {
  TinyPlan plan{.schedule = schedule, .recompute = c.recompute, .exact = c.exact, .bf16 = c.bf16};
  plan.mesh = absl::StrCat(c.mesh, c.mesh.empty() ? "" : " ", "pipe", pipe);
  plan.plan_fields = c.fields;
  plan.family = c.family;
  // The ranks of axis z share a microbatch.
  if (c.mesh.find('z') != std::string::npos) plan.microbatch = 2;
  plan.steps = 3;
  plan.layers = 6;
  return plan;
}

void ExpectOneLoss(const Case& c) {
  const auto whole = TrainTiny(PlanOf(c, "gpipe", 1));
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const std::string& value : Values()) {
    TinyPlan plan = PlanOf(c, c.schedule, 2);
    absl::StrAppend(&plan.plan_fields, " between_halves: ", value);
    const auto outcome = TrainTiny(plan);
    ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    ExpectSame(*outcome, *whole, absl::StrCat(plan.Name(), " ", value));
  }
}

// Stages of dualpipe have two replicas, so their gradients are summed in another order, except in exact accumulators.
TEST(BetweenHalvesTest, SchedulesTrainAlike) {
  for (const char* schedule : {"zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "interleaved-zb", "dualpipe"}) {
    ExpectOneLoss({.schedule = schedule, .exact = std::string(schedule) == "dualpipe"});
  }
}

TEST(BetweenHalvesTest, WithTensorParallelism) {
  for (const char* schedule : {"zb-h1", "zb-v", "v-min", "dualpipe"}) {
    const bool exact = std::string(schedule) == "dualpipe";
    for (const char* family : {"gpt2", "llama"}) {
      ExpectOneLoss({.schedule = schedule, .mesh = "x2", .family = family, .exact = exact});
      ExpectOneLoss(
          {.schedule = schedule, .mesh = "x2", .fields = "sequence_parallel: true", .family = family, .exact = exact});
    }
  }
}

TEST(BetweenHalvesTest, WithOtherChoices) {
  const std::string rows = "sequence_parallel: true ";
  for (const Case& c : std::vector<Case>{
           {.schedule = "zb-h1", .mesh = "x2", .fields = rows, .family = "llama", .recompute = true},
           {.schedule = "zb-v", .mesh = "x2", .fields = rows + "overlap { all_reduce: false }", .bf16 = true},
           {.schedule = "zb-h1", .mesh = "x2 z2", .fields = rows, .family = "llama"},
           {.schedule = "zb-h1", .mesh = "x2 y2"},
           {.schedule = "v-half",
            .mesh = "data2",
            .fields = "zero { stage: 3 reshard: AFTER_BACKWARD }",
            .exact = true},
           {.schedule = "zb-h1", .mesh = "z2", .fields = "overlap { gathered_cache_bytes: 100000 }"},
           {.schedule = "zb-h1", .fields = "attention: MATERIALIZED dropout_masks: true"},
           {.schedule = "zb-h2", .mesh = "x2", .fields = rows + "offload { activation_layers: 1 }"},
       }) {
    ExpectOneLoss(c);
  }
}

}  // namespace
}  // namespace weft
