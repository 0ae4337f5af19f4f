// Tests what Compile refuses, and with which messages: errors that Compile itself finds, and programs that do not fit.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "compiler/models/import_hf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

Recipe TinyRecipe() {
  return Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16 microbatch_sequences: 1 dropout: 0.1");
}

struct Case {
  int pipe = 1;
  int data = 1;
  std::string schedule = "1f1b";

  Plan MakePlan(const std::string& fields = "") const {
    return Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", data, " } axes { name: 'pipe' size: ", pipe,
                                    " } } schedule { name: '", schedule, "' } recompute { mode: NONE } ", fields));
  }
};

TEST(CompileRefusalsTest, AProgramThatDoesNotFitIsRefusedOrMarked) {
  Cluster cluster = TinyCluster();
  auto fits = CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, {});
  ASSERT_TRUE(fits.ok());
  // Exact to the byte: the program needs its arena and the reserve.
  cluster.mutable_device()->set_memory_bytes(PlannedDeviceBytes(*fits) + 1000);
  EXPECT_TRUE(CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, {}).ok());
  cluster.mutable_device()->set_memory_bytes(PlannedDeviceBytes(*fits) + 999);
  auto refused = CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::AllOf(HasSubstr("does not fit d"), HasSubstr("template pipe0"), HasSubstr("parameter"),
                             HasSubstr("it fits with --set ")));
  CompileOptions options;
  options.allow_oom = true;
  auto marked = CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, options);
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_TRUE(marked->does_not_fit());
}

TEST(CompileRefusalsTest, EveryRankFitsTheDeviceThatItIsOn) {
  Cluster cluster = TinyCluster();
  const auto fits = CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, {});
  ASSERT_TRUE(fits.ok());
  const auto compile = [&] { return CompilePlan(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), cluster, {}).status(); };
  OtherDevices* other = cluster.add_other_devices();
  *other->mutable_device() = cluster.device();
  other->mutable_device()->set_name("smaller");
  other->mutable_device()->set_memory_bytes(PlannedDeviceBytes(*fits) + 999);
  other->add_nodes(0);
  other->add_devices(0);
  EXPECT_THAT(std::string(compile().message()), HasSubstr("does not fit smaller"));
  // A device that is too small does not matter if no rank runs on it.
  other->set_devices(0, cluster.devices_per_node() - 1);
  EXPECT_TRUE(compile().ok()) << compile();
  // The cluster's own device is too small, but the rank's device is not.
  other->set_devices(0, 0);
  other->mutable_device()->set_memory_bytes(PlannedDeviceBytes(*fits) + 1000);
  cluster.mutable_device()->set_memory_bytes(1001);
  EXPECT_TRUE(compile().ok()) << compile();
}

TEST(CompileRefusalsTest, RefusalsNameTheField) {
  auto error = [](const Recipe& recipe, const Plan& plan, int layers = 8) {
    auto program = CompilePlan(TinyGpt2(layers), recipe, plan, TinyCluster(), {});
    EXPECT_FALSE(program.ok());
    return std::string(program.status().message());
  };
  EXPECT_THAT(error(TinyRecipe(), Case{.pipe = 2, .schedule = "1fib"}.MakePlan()), HasSubstr("1f1b"));
  EXPECT_THAT(error(TinyRecipe(), Case{}.MakePlan("collective: 'rign'")), HasSubstr("ring"));
  EXPECT_THAT(error(TinyRecipe(), Case{.data = 3}.MakePlan()), HasSubstr("global_batch_sequences"));
  EXPECT_THAT(error(TinyRecipe(), Case{.pipe = 32}.MakePlan()), HasSubstr("mesh"));
  EXPECT_THAT(error(TinyRecipe(), Case{.pipe = 8}.MakePlan(), 2), HasSubstr("stage"));
  EXPECT_THAT(error(TinyRecipe(), Case{}.MakePlan("partition { layers_per_stage: [3, 4] }")),
              HasSubstr("layers_per_stage"));
  EXPECT_THAT(error(Parse<Recipe>("sequence_length: 17 global_batch_sequences: 16"), Case{}.MakePlan()),
              HasSubstr("sequence_length"));
  Plan tensor = Parse<Plan>("mesh { axes { name: 'w' size: 2 } }");
  EXPECT_THAT(error(TinyRecipe(), tensor), HasSubstr("plan.mesh.axes[0].name"));
  auto level = EmitIr(TinyGpt2(2), TinyRecipe(), Case{}.MakePlan(), TinyCluster(), "ranks");
  EXPECT_THAT(std::string(level.status().message()), HasSubstr("graph, rank, program"));
}

TEST(CompileRefusalsTest, SumsAreNotLeftToSwitchesThatDoNotSum) {
  const Plan plan = Case{.data = 2}.MakePlan("collective: 'switch'");
  const absl::Status refused = CompilePlan(TinyGpt2(2), TinyRecipe(), plan, TinyCluster(), {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cluster.node_links.switch_reduces = true (it is false)"));
  const Cluster summing = TinyCluster("node_links { switch_reduces: true }");
  const absl::Status accepted = CompilePlan(TinyGpt2(2), TinyRecipe(), plan, summing, {}).status();
  EXPECT_TRUE(accepted.ok()) << accepted;
}

TEST(CompileRefusalsTest, ImpossibleSizesAreRefusedInOneLine) {
  for (const char* fields :
       {R"("vocab_size": 16777216, "n_positions": 16777216, "n_embd": 16777216, "n_head": 1, "n_layer": 4)",
        R"("vocab_size": 100, "n_positions": 16777216, "n_embd": 16, "n_head": 16, "n_layer": 4)",
        R"("vocab_size": 16777216, "n_positions": 16777216, "n_embd": 64, "n_head": 1, "n_layer": 4)"}) {
    auto model = ImportHuggingFaceConfig(absl::StrCat("{", fields, "}"), "huge");
    ASSERT_TRUE(model.ok()) << model.status();
    for (const char* batch : {"1", "127", "1000000", "1099511627776"}) {
      for (const char* microbatch : {"1", "127", "1000000"}) {
        Recipe recipe = Parse<Recipe>(absl::StrCat("sequence_length: 16777216 global_batch_sequences: ", batch,
                                                   " microbatch_sequences: ", microbatch));
        auto program = CompilePlan(*model, recipe, Case{.pipe = 2}.MakePlan(), TinyCluster(), {});
        EXPECT_FALSE(program.ok());
        EXPECT_FALSE(absl::StrContains(program.status().message(), "\n")) << program.status();
      }
    }
  }
}

}  // namespace
}  // namespace weft::planner
