// Every change that a refusal names makes the plan fit, if it is compiled as the user would compile it.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "compiler/compile_testing.h"
#include "compiler/models/import_hf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "proto/io/set_field.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

// The head costs more than one layer: with all layers recomputed, 7 stages are cut elsewhere than with none.
const ModelGraph& Model() {
  static const auto* const model = new absl::StatusOr<ModelGraph>(ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 300, "n_positions": 16, "n_embd": 16, "n_head": 2, "n_layer": 12})",
      "uneven"));
  EXPECT_TRUE(model->ok()) << model->status();
  return model->value();
}

Recipe MakeRecipe(int microbatch = 4) {
  return Parse<Recipe>(
      absl::StrCat("sequence_length: 16 global_batch_sequences: 16 microbatch_sequences: ", microbatch));
}

Plan MakePlan(const std::string& recompute) {
  return Parse<Plan>(absl::StrCat(
      "mesh { axes { name: 'pipe' size: 7 } } schedule { name: '1f1b' } recompute { mode: ", recompute, " }"));
}

Cluster ClusterOf(int64_t capacity) {
  Cluster cluster = TinyCluster();
  cluster.mutable_device()->set_memory_bytes(capacity + cluster.device().reserved_bytes());
  return cluster;
}

// The bytes that the plan needs if nothing fits.
int64_t BytesOf(const Plan& plan, int microbatch = 4) {
  CompileOptions options;
  options.allow_oom = true;
  const auto program = CompilePlan(Model(), MakeRecipe(microbatch), plan, ClusterOf(1), options);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? PlannedDeviceBytes(*program) : 0;
}

// The changes that the refusal names, each as flags; empty if the plan fits.
std::vector<std::string> NamedWays(const Plan& plan, const Cluster& cluster, std::string* message) {
  const absl::Status status = CompilePlan(Model(), MakeRecipe(), plan, cluster, {}).status();
  *message = std::string(status.message());
  std::vector<std::string> named;
  for (absl::string_view rest = *message; absl::StrContains(rest, "with --set ");) {
    rest.remove_prefix(rest.find("with --set ") + 5);
    named.emplace_back(rest.substr(0, rest.find(" (")));
  }
  return named;
}

void ExpectFits(const std::string& way, const Plan& plan, const Cluster& cluster, const std::string& message,
                Recipe recipe = MakeRecipe()) {
  Plan changed = plan;
  for (absl::string_view setting : absl::StrSplit(absl::StrCat(" ", way), " --set ", absl::SkipEmpty())) {
    ASSERT_TRUE(ApplySetting(setting, &recipe, &changed).ok()) << way;
  }
  CompileOptions options;
  options.remedies = false;
  const absl::Status status = CompilePlan(Model(), recipe, changed, cluster, options).status();
  EXPECT_TRUE(status.ok()) << way << "\n" << message << "\n" << status;
}

// FIT keeps the stages of a plan that recomputes nothing.
TEST(WaysOutTriesTest, FitMayNeedMoreThanToRecomputeAll) {
  EXPECT_GT(BytesOf(MakePlan("FIT")), BytesOf(MakePlan("FULL")));
  EXPECT_GT(BytesOf(MakePlan("FIT"), 2), BytesOf(MakePlan("FULL"), 2));
}

void ExpectThatNamedWaysFit(const std::string& recompute, int64_t capacity, size_t count, const std::string& first) {
  const Plan plan = MakePlan(recompute);
  const Cluster cluster = ClusterOf(capacity);
  std::string message;
  const std::vector<std::string> ways = NamedWays(plan, cluster, &message);
  ASSERT_EQ(ways.size(), count) << message;
  EXPECT_EQ(ways[0], first);
  for (const std::string& way : ways) ExpectFits(way, plan, cluster, message);
}

TEST(WaysOutTriesTest, ToRecomputeAllIsNamedWhereStagesCutElsewhereFit) {
  const int64_t full = BytesOf(MakePlan("FULL"));
  ExpectThatNamedWaysFit("NONE", full, 3, "--set recompute.mode=FULL");
  ExpectThatNamedWaysFit("FIT", full, 3, "--set recompute.mode=FULL");
}

TEST(WaysOutTriesTest, NamesFullRecomputeIfFitIsNotEnough) {
  ExpectThatNamedWaysFit("FIT", BytesOf(MakePlan("FULL"), 2), 3, "--set recompute.mode=FULL --set mbs=2");
}

// The less memory there is, the more changes are needed, up to all that go together.
TEST(WaysOutTriesTest, AllThatIsNamedFitsHoweverMuchItTakes) {
  const Plan plan = Parse<Plan>("mesh { axes { name: 'data' size: 4 } } schedule { name: '1f1b' }");
  bool any_of_several = false;
  std::string message;
  for (int64_t capacity = BytesOf(plan) * 2 / 3; !absl::StrContains(message, "no change");
       capacity = capacity * 2 / 3) {
    const Cluster cluster = ClusterOf(capacity);
    const std::vector<std::string> ways = NamedWays(plan, cluster, &message);
    ASSERT_EQ(ways.empty(), absl::StrContains(message, "no change")) << message;
    for (const std::string& way : ways) ExpectFits(way, plan, cluster, message);
    const std::vector<std::string> settings = absl::StrSplit(ways.empty() ? "" : ways[0], " --set ");
    any_of_several |= settings.size() > 3;
  }
  EXPECT_TRUE(any_of_several);
  EXPECT_THAT(message, HasSubstr("nor do all compatible changes together"));
}

// Half, a quarter and an eighth of the microbatch are not small enough.
TEST(WaysOutTriesTest, AMicrobatchMayHaveToBeMuchSmaller) {
  const Plan plan = Parse<Plan>("schedule { name: '1f1b' } recompute { mode: FULL }");
  Recipe recipe = MakeRecipe(96);
  recipe.set_global_batch_sequences(96);
  const auto bytes_of = [&](int64_t microbatch) {
    Recipe smaller = recipe;
    smaller.set_microbatch_sequences(microbatch);
    CompileOptions options;
    options.allow_oom = true;
    const auto program = CompilePlan(Model(), smaller, plan, ClusterOf(1), options);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.ok() ? PlannedDeviceBytes(*program) : 0;
  };
  Cluster cluster = ClusterOf(bytes_of(8));
  cluster.set_nodes(1);
  cluster.set_devices_per_node(1);
  cluster.clear_host();
  const absl::Status refused = CompilePlan(Model(), recipe, plan, cluster, {}).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it fits with --set mbs=8 ("));
  ExpectFits("--set mbs=8", plan, cluster, std::string(refused.message()), recipe);
}

TEST(WaysOutTriesTest, AnIntervalThatIsChosenHasWaysOut) {
  ExpectThatNamedWaysFit("INTERVAL", BytesOf(MakePlan("FULL"), 2), 3, "--set mbs=2");
}

}  // namespace
}  // namespace weft::planner
