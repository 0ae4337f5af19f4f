// How long ZeRO 3 keeps gathered parameters and how early it gathers them changes times and memory, but no bit. The
// compiler's choice by benefit simulates no slower than any setting that a user could have asked for.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "proto/util/status.h"
#include "simulator/simulate.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

const std::vector<std::string>& Choices() {
  static const std::vector<std::string> choices = {"reshard: AFTER_BACKWARD",
                                                   "reshard: NEVER",
                                                   "reshard: LAYERS kept_layers: [0, 2]",
                                                   "reshard: LAYERS kept_layers: [3, 5] prefetch: 2",
                                                   "reshard: BY_BENEFIT",
                                                   "prefetch: 0",
                                                   "prefetch: 3",
                                                   "reshard: AFTER_BACKWARD prefetch: 2"};
  return choices;
}

struct Case {
  const char* schedule;
  const char* mesh;
  const char* fields;
  bool tied, exact;
  const char* schedule_fields = "";
};

class Meshes : public testing::TestWithParam<Case> {};

TEST_P(Meshes, NoChoiceChangesABit) {
  const Case& c = GetParam();
  TinyPlan plan{.schedule = c.schedule, .exact = c.exact, .steps = 2, .layers = 4, .batch = 8, .microbatch = 1};
  plan.mesh = c.mesh;
  plan.tied = c.tied;
  plan.bf16 = !c.exact;
  plan.schedule_fields = c.schedule_fields;
  if (std::string(c.mesh).find('z') != std::string::npos) plan.microbatch = 2;
  plan.plan_fields = absl::StrCat("zero { stage: 3 ", c.fields, " }");
  const auto expected = TrainTiny(plan);
  ASSERT_TRUE(expected.ok()) << plan.Name() << ": " << expected.status();
  for (const std::string& choice : Choices()) {
    plan.plan_fields = absl::StrCat("zero { stage: 3 ", c.fields, " ", choice, " }");
    const auto outcome = TrainTiny(plan);
    ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    ExpectSame(*outcome, *expected, plan.Name());
  }
}

INSTANTIATE_TEST_SUITE_P(ZeroReshardTest, Meshes,
                         testing::Values(Case{"1f1b", "data2", "", true, false},
                                         Case{"1f1b", "data2 pipe2", "", true, true},
                                         Case{"1f1b", "pipe2 data4", "group: 2", false, false},
                                         Case{"zb-h1", "data2 pipe2", "", true, false},
                                         Case{"interleaved", "pipe2 data2", "", true, true, "virtual_stages: 2"},
                                         Case{"chimera", "data2 pipe2", "", false, true},
                                         Case{"1f1b", "z2 data2 x2", "", true, true}));

// Combines zero.reshard with other settings that act in a backward or after the optimizer.
TEST(ZeroReshardTest, OtherChoicesDoNotMatter) {
  for (const char* others : {"offload { optimizer: true bucket_elements: 1024 }", "offload { activation_layers: 1 }",
                             "", "loss_scale { fixed: 64 }", "overlap { reduce_scatter: false all_gather: false }",
                             "overlap { gathered_cache_bytes: 20000 }"}) {
    TinyPlan plan{.steps = 2, .layers = 4, .batch = 8, .mesh = "data2 pipe2"};
    plan.recompute = std::string(others).empty();
    plan.plan_fields = absl::StrCat("zero { stage: 3 } ", others);
    // With 1f1b on two pipe ranks no activations would be offloaded.
    if (plan.plan_fields.find("activation") != std::string::npos) plan.schedule = "gpipe";
    const auto expected = TrainTiny(plan);
    ASSERT_TRUE(expected.ok()) << plan.Name() << ": " << expected.status();
    for (const char* choice : {"reshard: AFTER_BACKWARD", "reshard: NEVER", "reshard: LAYERS kept_layers: [1, 3, 4]",
                               "reshard: BY_BENEFIT"}) {
      plan.plan_fields = absl::StrCat("zero { stage: 3 ", choice, " } ", others);
      const auto outcome = TrainTiny(plan);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      ExpectSame(*outcome, *expected, plan.Name());
    }
  }
}

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct Simulated {
  double seconds = 0;
  int64_t bytes = 0;
  std::vector<std::string> notes;
};

struct Setting {
  const char* mesh;
  int microbatches;
  // Bandwidth between devices.
  double bytes_per_second;
};

// Simulates four layers of the size of GPT-2 124M. `memory` 0 = more than enough. Returns an error if the plan does not
// fit.
absl::StatusOr<Simulated> SimulateGpt2(const Setting& setting, const std::string& zero, int64_t memory) {
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model,
                        ImportHuggingFaceConfig(R"({"model_type": "gpt2", "vocab_size": 5000, "n_positions": 1024,
                                                    "n_embd": 768, "n_head": 12, "n_layer": 4})",
                                                "gpt2"));
  const auto plan = Parse<Plan>(absl::StrCat("mesh { ", setting.mesh, " } zero { stage: 3 ", zero, " }"));
  const auto recipe = Parse<Recipe>(absl::StrCat(
      "sequence_length: 1024 microbatch_sequences: 2 global_batch_sequences: ", 2 * 4 * setting.microbatches));
  const auto cluster = Parse<Cluster>(absl::StrCat(
      R"(name: "c" nodes: 1 devices_per_node: 8 nics_per_node: 8
         device { name: "d" memory_bytes: )",
      memory > 0 ? memory : 80000000000, R"( memory_bytes_per_second: 2e12
                  peaks { dtype: BF16 flops_per_second: 312e12 } peaks { dtype: FP32 flops_per_second: 19.5e12 } }
         intra_node { latency_seconds: 1e-6 bytes_per_second: )",
      setting.bytes_per_second, " } inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }"));
  Simulated simulated;
  planner::CompileOptions options;
  options.remedies = false;
  options.notes = &simulated.notes;
  WEFT_ASSIGN_OR_RETURN(const Program program, planner::CompilePlan(model, recipe, plan, cluster, options));
  WEFT_ASSIGN_OR_RETURN(const sim::Simulation simulation, sim::Simulate(program, cluster, {}));
  simulated.seconds = simulation.report.iteration_seconds();
  simulated.bytes = PlannedDeviceBytes(program);
  return simulated;
}

class Settings : public testing::TestWithParam<Setting> {};

TEST_P(Settings, ByBenefitIsNoSlowerThanWhatCouldBeAskedForAndFits) {
  const auto least = SimulateGpt2(GetParam(), "", 0);
  const auto most = SimulateGpt2(GetParam(), "reshard: NEVER", 0);
  ASSERT_TRUE(least.ok() && most.ok()) << least.status() << most.status();
  ASSERT_GT(most->bytes, least->bytes);
  double before = 0;
  for (const double share : {0.0, 0.5, 1.0}) {
    const auto room = static_cast<int64_t>(share * static_cast<double>(most->bytes - least->bytes));
    const int64_t memory = least->bytes + room;
    const auto chosen = SimulateGpt2(GetParam(), "reshard: BY_BENEFIT", memory);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_LE(chosen->bytes, memory);
    for (const char* forced : {"", "prefetch: 2", "reshard: AFTER_BACKWARD", "reshard: NEVER"}) {
      const auto other = SimulateGpt2(GetParam(), forced, memory);
      if (!other.ok()) {
        EXPECT_EQ(other.status().code(), absl::StatusCode::kResourceExhausted) << other.status();
        continue;
      }
      EXPECT_LE(chosen->seconds, other->seconds) << share << " " << forced << ": " << chosen->notes.back();
    }
    // Additional memory never makes the plan slower.
    if (share == 0) before = chosen->seconds;
    EXPECT_LE(chosen->seconds, before) << chosen->notes.back();
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt2, Settings,
                         testing::Values(Setting{"axes { name: 'data' size: 4 }", 1, 1e11},
                                         Setting{"axes { name: 'data' size: 4 }", 4, 1e10},
                                         Setting{"axes { name: 'data' size: 4 } axes { name: 'pipe' size: 2 }", 4,
                                                 2e10}));

}  // namespace
}  // namespace weft
