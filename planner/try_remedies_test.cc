// Tests that every change that a refusal names makes the plan fit when the user compiles it.
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

// The head costs more than one layer. So with full recompute the 7 stages have other layers than without recompute.
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

// Returns the bytes that the plan needs, compiled for a device on which nothing fits.
int64_t BytesOf(const Plan& plan, int microbatch = 4) {
  CompileOptions options;
  options.allow_oom = true;
  const auto program = CompilePlan(Model(), MakeRecipe(microbatch), plan, ClusterOf(1), options);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? PlannedDeviceBytes(*program) : 0;
}

// The changes that the refusal names, each as flags; empty if the plan fits.
std::vector<std::string> NamedRemedies(const Plan& plan, const Cluster& cluster, std::string* message) {
  const absl::Status status = CompilePlan(Model(), MakeRecipe(), plan, cluster, {}).status();
  *message = std::string(status.message());
  std::vector<std::string> named;
  for (absl::string_view rest = *message; absl::StrContains(rest, "with --set ");) {
    rest.remove_prefix(rest.find("with --set ") + 5);
    named.emplace_back(rest.substr(0, rest.find(" (")));
  }
  return named;
}

void ExpectFits(const std::string& remedy, const Plan& plan, const Cluster& cluster, const std::string& message,
                Recipe recipe = MakeRecipe()) {
  Plan changed = plan;
  for (absl::string_view setting : absl::StrSplit(absl::StrCat(" ", remedy), " --set ", absl::SkipEmpty())) {
    ASSERT_TRUE(ApplySetting(setting, &recipe, &changed).ok()) << remedy;
  }
  CompileOptions options;
  options.remedies = false;
  const absl::Status status = CompilePlan(Model(), recipe, changed, cluster, options).status();
  EXPECT_TRUE(status.ok()) << remedy << "\n" << message << "\n" << status;
}

// FIT keeps the stages of the plan without recompute, so it may need more memory than FULL.
TEST(TryRemediesTest, FitMayNeedMoreThanToRecomputeAll) {
  EXPECT_GT(BytesOf(MakePlan("FIT")), BytesOf(MakePlan("FULL")));
  EXPECT_GT(BytesOf(MakePlan("FIT"), 2), BytesOf(MakePlan("FULL"), 2));
}

void ExpectThatNamedRemediesFit(const std::string& recompute, int64_t capacity, size_t count,
                                const std::string& first) {
  const Plan plan = MakePlan(recompute);
  const Cluster cluster = ClusterOf(capacity);
  std::string message;
  const std::vector<std::string> remedies = NamedRemedies(plan, cluster, &message);
  ASSERT_EQ(remedies.size(), count) << message;
  EXPECT_EQ(remedies[0], first);
  for (const std::string& remedy : remedies) ExpectFits(remedy, plan, cluster, message);
}

TEST(TryRemediesTest, ToRecomputeAllIsNamedWhereStagesCutElsewhereFit) {
  const int64_t full = BytesOf(MakePlan("FULL"));
  ExpectThatNamedRemediesFit("NONE", full, 3, "--set recompute.mode=FULL");
  ExpectThatNamedRemediesFit("FIT", full, 3, "--set recompute.mode=FULL");
}

TEST(TryRemediesTest, NamesFullRecomputeIfFitIsNotEnough) {
  ExpectThatNamedRemediesFit("FIT", BytesOf(MakePlan("FULL"), 2), 3, "--set recompute.mode=FULL --set mbs=2");
}

// The less memory there is, the more changes are needed, up to all compatible ones.
TEST(TryRemediesTest, AllThatIsNamedFitsHoweverMuchItTakes) {
  const Plan plan = Parse<Plan>("mesh { axes { name: 'data' size: 4 } } schedule { name: '1f1b' }");
  bool any_of_several = false;
  std::string message;
  for (int64_t capacity = BytesOf(plan) * 2 / 3; !absl::StrContains(message, "no change");
       capacity = capacity * 2 / 3) {
    const Cluster cluster = ClusterOf(capacity);
    const std::vector<std::string> remedies = NamedRemedies(plan, cluster, &message);
    ASSERT_EQ(remedies.empty(), absl::StrContains(message, "no change")) << message;
    for (const std::string& remedy : remedies) ExpectFits(remedy, plan, cluster, message);
    const std::vector<std::string> settings = absl::StrSplit(remedies.empty() ? "" : remedies[0], " --set ");
    any_of_several |= settings.size() > 3;
  }
  EXPECT_TRUE(any_of_several);
  EXPECT_THAT(message, HasSubstr("nor do all compatible changes together"));
}

// Reducing the microbatch to a half, a quarter or an eighth is not enough.
TEST(TryRemediesTest, AMicrobatchMayHaveToBeMuchSmaller) {
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

TEST(TryRemediesTest, AnIntervalThatIsChosenHasRemedies) {
  ExpectThatNamedRemediesFit("INTERVAL", BytesOf(MakePlan("FULL"), 2), 3, "--set mbs=2");
}

}  // namespace
}  // namespace weft::planner
