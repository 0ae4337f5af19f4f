#include "planner/search/search.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/search/plan_report.h"
#include "planner/search/search_testing.h"
#include "simulator/network/network_model.h"
#include "tests/full.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

// Clusters with devices of two kinds or speeds.
std::vector<Problem> MixedProblems() {
  std::vector<Problem> problems;
  const std::string two_stages = "mesh { axes { name: 'pipe' size: 2 } } ";
  const std::string two_replicas = "mesh { axes { name: 'data' size: 2 } } ";
  const std::string second = "other_devices { devices: 1 device { name: 'H100' } }";
  const std::string half = "other_devices { devices: [2, 3] device { name: 'H100' } }";
  for (const char* schedule : {"1f1b", "interleaved", "hanayo", "chimera", "zb-h1", "zb-v"}) {
    problems.push_back(
        {.batch = 4, .schedule = schedule, .plan = two_stages, .others = second, .excluded = {"offload"}});
  }
  problems.push_back({.batch = 4, .others = "other_devices { devices: 0 device { name: 'H100' } }"});
  problems.push_back({.batch = 4, .plan = two_replicas + "zero { stage: 3 }", .others = second});
  const std::vector<std::string> few = {"offload", "recompute", "microbatch", "sequence-parallel"};
  problems.push_back({.devices = 4, .batch = 8, .others = half, .excluded = few});
  problems.push_back({.devices = 4, .batch = 8, .network = "nccl", .others = half, .excluded = few});
  problems.push_back(
      {.devices = 4, .batch = 8, .others = "other_devices { devices: [0, 3] speed: 0.4 }", .excluded = few});
  problems.push_back({.batch = 4, .others = "other_devices { devices: 1 speed: 2 }"});
  problems.push_back(
      {.batch = 8, .network = "nccl", .runtime = "megatron-core", .others = second, .excluded = {"microbatch"}});
  // The second device has less memory than others, and all have little.
  problems.push_back({.batch = 16,
                      .plan = two_stages,
                      .memory = kTightMemory,
                      .others = "other_devices { devices: 1 device { name: 'H100' memory_bytes: 9000000 } }",
                      .excluded = {"offload"}});
  // All devices are of another kind than cluster.device.
  problems.push_back({.batch = 4, .others = "other_devices { device { name: 'H100' } }"});
  return problems;
}

std::vector<Problem> Problems() {
  std::vector<Problem> problems;
  const std::string two_stages = "mesh { axes { name: 'pipe' size: 2 } } ";
  const std::string two_replicas = "mesh { axes { name: 'data' size: 2 } } ";
  for (const char* schedule : {"1f1b", "interleaved", "hanayo", "chimera", "zb-h1", "zb-v", "v-half"}) {
    problems.push_back({.batch = 4, .schedule = schedule, .plan = two_stages, .excluded = {"offload"}});
  }
  for (const char* model : {"llama-tiny", "bert-tiny"}) problems.push_back({.model = model});
  for (const sim::NetworkModelEntry& network : sim::NetworkModels()) {
    problems.push_back({.network = std::string(network.name)});
  }
  for (const char* runtime : {"megatron-core", "torchtitan", "deepspeed", "torch-eager"}) {
    problems.push_back({.network = "nccl", .runtime = runtime, .excluded = {"microbatch"}});
  }
  problems.push_back({.model = "llama-tiny", .network = "nccl", .runtime = "transformers", .excluded = {"microbatch"}});
  problems.push_back({.batch = 4, .plan = two_replicas + "zero { stage: 3 reshard: AFTER_BACKWARD }"});
  problems.push_back({.batch = 4, .plan = two_replicas, .excluded = {"recompute"}});
  problems.push_back({.batch = 4, .plan = two_replicas + "accumulation: EXACT"});
  problems.push_back({.devices = 4, .batch = 4, .plan = "mesh { axes { name: 'data' size: 4 } } collective: 'direct'"});
  problems.push_back(
      {.devices = 4, .batch = 4, .plan = "mesh { axes { name: 'data' size: 4 } } zero { stage: 2 group: 2 }"});
  problems.push_back(
      {.devices = 4, .batch = 4, .plan = "mesh { axes { name: 'data' size: 4 } } zero { stage: 1 group: 2 }"});
  problems.push_back({.batch = 16, .plan = two_stages, .memory = kTightMemory, .excluded = {"offload"}});
  // Two nodes.
  problems.push_back(
      {.devices = 16, .batch = 8, .plan = "mesh { axes { name: 'x' size: 4 } axes { name: 'pipe' size: 2 } } zero {}"});
  if (full) {
    for (const char* schedule : {"1f1b", "interleaved", "hanayo", "zb-h1"}) {
      problems.push_back({.devices = 4, .batch = 16, .schedule = schedule, .excluded = {}});
      problems.push_back({.model = "llama-tiny", .devices = 8, .batch = 8, .schedule = schedule, .excluded = {}});
    }
    for (const sim::NetworkModelEntry& network : sim::NetworkModels()) {
      problems.push_back({.devices = 4, .batch = 8, .network = std::string(network.name), .excluded = {}});
    }
    for (const char* runtime : {"megatron-core", "torchtitan", "deepspeed", "torch-eager"}) {
      problems.push_back({.devices = 4, .batch = 8, .network = "nccl", .runtime = runtime, .excluded = {}});
    }
  }
  return problems;
}

class SearchOf : public testing::TestWithParam<Problem> {};

TEST_P(SearchOf, BoundsHoldAndThePrunedSearchFindsTheFastestPlan) {
  const absl::StatusOr<SearchResult> all = RunSearch(GetParam(), {.exhaustive = true});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_FALSE(all->plans.empty()) << all->refusal;
  EXPECT_EQ(all->simulated + all->refused + all->unfit, all->space);
  for (const FoundPlan& plan : all->plans) {
    EXPECT_LE(plan.least_seconds, plan.report.iteration_seconds() * (1 + 1e-9)) << plan.settings;
    EXPECT_LE(plan.least_bytes, plan.device_bytes) << plan.settings;
  }
  const absl::StatusOr<SearchResult> pruned = RunSearch(GetParam());
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->plans[0].report.iteration_seconds(), all->plans[0].report.iteration_seconds())
      << pruned->plans[0].settings << " instead of " << all->plans[0].settings;
  EXPECT_EQ(pruned->gap, 0);
  EXPECT_LE(pruned->simulated, all->simulated);
  EXPECT_EQ(pruned->simulated + pruned->refused + pruned->unfit + pruned->slower, pruned->space);
}

INSTANTIATE_TEST_SUITE_P(Problems, SearchOf, testing::ValuesIn(Problems()));
INSTANTIATE_TEST_SUITE_P(MixedProblems, SearchOf, testing::ValuesIn(MixedProblems()));

TEST(Search, EqualKindsAreSearchedAsOneKind) {
  std::vector<std::string> reports;
  for (const bool is_named : {false, true}) {
    Cluster cluster = *LoadCluster("dgx-a100-80g");
    if (is_named) {
      OtherDevices* other = cluster.add_other_devices();
      other->add_devices(1);
      *other->mutable_device() = cluster.device();
      other->mutable_device()->set_name("the same");
    }
    const absl::StatusOr<SearchResult> result =
        Search(*LoadModel("gpt2-tiny"), cluster, OptionsFor({.batch = 8, .memory = kTightMemory}));
    ASSERT_TRUE(result.ok()) << result.status();
    reports.push_back(ReportOf(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), {}, *result).DebugString());
  }
  EXPECT_EQ(reports[0], reports[1]);
}

// With faster devices in place of half of them, the best plan is faster, but not as fast as with only such devices.
TEST(Search, FasterDevicesMakeTheBestPlanFaster) {
  std::vector<double> seconds;
  for (const char* others :
       {"", "other_devices { devices: [2, 3] device { name: 'H100' } }", "other_devices { device { name: 'H100' } }"}) {
    const absl::StatusOr<SearchResult> result =
        RunSearch({.devices = 4, .batch = 8, .others = others, .excluded = {"offload", "recompute", "microbatch"}});
    ASSERT_TRUE(result.ok()) << result.status();
    seconds.push_back(result->plans[0].report.iteration_seconds());
  }
  EXPECT_LE(seconds[1], seconds[0]);
  EXPECT_LT(seconds[2], seconds[1]);
}

TEST(Search, NamesNoLargerPlanForSeveralKinds) {
  const absl::StatusOr<SearchResult> result =
      RunSearch({.batch = 8, .memory = kTightMemory, .others = "other_devices { devices: 1 device { name: 'H100' } }"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->plans.empty());
  EXPECT_FALSE(result->larger.has_value());
}

TEST(Search, TheResultDoesNotDependOnTheNumberOfThreads) {
  std::vector<std::string> reports;
  for (const int threads : {1, 3}) {
    const absl::StatusOr<SearchResult> result = RunSearch({.batch = 8, .memory = kTightMemory}, {.threads = threads});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LT(result->simulated, result->space / 2);
    reports.push_back(ReportOf(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), {}, *result).DebugString());
  }
  EXPECT_EQ(reports[0], reports[1]);
}

TEST(Search, AStoppedSearchSaysHowFarItCame) {
  const absl::StatusOr<SearchResult> result = RunSearch({.batch = 8}, {.stop_after = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->stopped);
  EXPECT_GT(result->open, 0);
  EXPECT_EQ(result->simulated + result->refused + result->unfit + result->slower + result->open, result->space);
  ASSERT_FALSE(result->plans.empty());
  EXPECT_LE(result->least_seconds, result->plans[0].report.iteration_seconds());
}

TEST(Search, ComparesPopularChoices) {
  const absl::StatusOr<SearchResult> result =
      RunSearch({.devices = 8,
                 .batch = 8,
                 .plan = "mesh { axes { name: 'y' size: 1 } axes { name: 'z' size: 1 } }",
                 .memory = kTightMemory});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->popular.size(), 2);
  const double best = result->plans[0].report.iteration_seconds();
  // A replica's states alone take more than the memory.
  EXPECT_EQ(result->popular[0].kind, "replicas alone");
  EXPECT_EQ(result->popular[0].iteration_seconds, 0);
  EXPECT_GT(result->popular[0].device_bytes, kTightMemory << 20);
  EXPECT_EQ(result->popular[1].kind, "ZeRO 3 alone");
  EXPECT_THAT(result->popular[1].settings, HasSubstr("dp=8 mbs=1 zero.stage=3"));
  EXPECT_GE(result->popular[1].iteration_seconds, best);
}

// Where few plans are of a kind, the search tries all of them.
TEST(Search, APopularChoiceIsTheFastestOfItsKind) {
  const Problem problem = {.devices = 2,
                           .batch = 16,
                           .plan = "mesh { axes { name: 'data' size: 2 } }",
                           .excluded = {"offload", "recompute", "sequence-parallel"}};
  const absl::StatusOr<SearchResult> all = RunSearch(problem, {.exhaustive = true});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->popular.size(), 2);
  for (const PopularPlan& popular : all->popular) {
    const bool zero = popular.kind == "ZeRO 3 alone";
    for (const FoundPlan& plan : all->plans) {
      if (plan.plan.zero().stage() != (zero ? 3 : 0)) continue;
      EXPECT_LE(popular.iteration_seconds, plan.report.iteration_seconds()) << popular.kind << " " << plan.settings;
    }
  }
}

// The search names the smallest plan that would be faster with more memory.
TEST(Search, NamesALargerPlanThatIsFaster) {
  const absl::StatusOr<SearchResult> tight = RunSearch({.batch = 8, .memory = kTightMemory});
  ASSERT_TRUE(tight.ok()) << tight.status();
  ASSERT_TRUE(tight->larger.has_value());
  EXPECT_GT(tight->larger->device_bytes, kTightMemory << 20);
  EXPECT_LT(tight->larger->report.iteration_seconds(), tight->plans[0].report.iteration_seconds());
  // The report states the memory of the device, of which a part is reserved.
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const PlanReport report = ReportOf(*LoadModel("gpt2-tiny"), cluster, {}, *tight);
  ASSERT_GT(cluster.device().reserved_bytes(), 0);
  EXPECT_EQ(report.larger_memory_bytes(), tight->larger->device_bytes + cluster.device().reserved_bytes());
  EXPECT_THAT(PlanReportText(report),
              HasSubstr(absl::StrCat("(device.memory_bytes = ", report.larger_memory_bytes(), " or more)")));
  const absl::StatusOr<SearchResult> roomy = RunSearch({.batch = 8});
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  EXPECT_FALSE(roomy->larger.has_value());
  EXPECT_LE(roomy->plans[0].report.iteration_seconds(), tight->larger->report.iteration_seconds());
}

TEST(Search, FindsTheFewestChangesOfAPlan) {
  SearchOptions options = OptionsFor({.batch = 8});
  options.from = StartingPlan{.microbatch_sequences = 1, .plan = Parse<Plan>("mesh { axes { name: 'data' size: 2 } }")};
  const absl::StatusOr<SearchResult> result = Search(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->changes.has_value());
  const ChangesFrom& changes = *result->changes;
  const double best = result->plans[0].report.iteration_seconds(), start = changes.start.iteration_seconds;
  EXPECT_GT(start, best);
  ASSERT_FALSE(changes.change.dimensions.empty());
  EXPECT_LE(changes.change.iteration_seconds, best + (1 - kMostOfTheGain) * (start - best));
  // No single change is as good unless it is the answer.
  for (const ChangedPlan& single : changes.single) {
    EXPECT_EQ(single.dimensions.size(), 1);
    EXPECT_NE(single.settings, "");
    if (changes.change.dimensions.size() > 1 && single.iteration_seconds > 0) {
      EXPECT_GT(single.iteration_seconds, best + (1 - kMostOfTheGain) * (start - best)) << single.settings;
    }
  }
}

TEST(Search, APlanThatIsRefusedEndsTheSearchBeforeItBegins) {
  SearchOptions options = OptionsFor({.batch = 8});
  options.from = StartingPlan{.microbatch_sequences = 1,
                              .plan = Parse<Plan>("mesh { axes { name: 'pipe' size: 2 } } schedule { name: '1f2b' }")};
  bool began = false;
  options.stop = [&] { return began = true; };
  const absl::StatusOr<SearchResult> result = Search(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), options);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("--from: "));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("1f2b"));
  EXPECT_FALSE(began);
}

TEST(Search, WithoutEnoughMemoryNoPlanIsFound) {
  const absl::StatusOr<SearchResult> result = RunSearch({.memory = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->plans.empty());
  EXPECT_EQ(result->unfit + result->refused, result->space);
}

TEST(Search, EveryPlanFitsTheMemoryThatIsAllowed) {
  const absl::StatusOr<SearchResult> result = RunSearch(
      {.batch = 8, .memory = kTightMemory, .excluded = {"offload", "sequence-parallel"}}, {.exhaustive = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->unfit, 0);
  for (const FoundPlan& plan : result->plans) EXPECT_LE(plan.device_bytes, kTightMemory << 20) << plan.settings;
}

TEST(Search, RefusesInputsThatItCannotSearch) {
  const auto error = [](const Problem& problem) { return std::string(RunSearch(problem).status().message()); };
  EXPECT_THAT(error({.batch = 0}), HasSubstr("recipe.global_batch_sequences"));
  EXPECT_THAT(error({.devices = 2000}), HasSubstr("has 1024"));
  EXPECT_THAT(error({.devices = 4, .batch = 3, .plan = "mesh { axes { name: 'data' size: 4 } }"}),
              HasSubstr("divide recipe.global_batch_sequences"));
  EXPECT_THAT(error({.schedule = "pipedream"}), HasSubstr("changes the loss"));
  EXPECT_THAT(error({.plan = "schedule { name: 'pipedream' }"}), HasSubstr("changes the loss"));
  EXPECT_THAT(error({.plan = "schedule { name: 'axonn' }"}), HasSubstr("chooses its order at run time"));
  EXPECT_THAT(error({.plan = "recompute { mode: EVERY every: 2 }"}), HasSubstr("plan.recompute.mode = EVERY"));
  EXPECT_THAT(error({.plan = "mesh { axes { name: 'pipe' size: 2 } } partition { layers_per_stage: [1, 2, 3] }"}),
              HasSubstr("cannot be cut into 2 stages"));
}

}  // namespace
}  // namespace weft::planner
