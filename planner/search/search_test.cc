#include "planner/search/search.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/search/plan_report.h"
#include "proto/validate/validate_runtime.h"
#include "simulator/network/network_model.h"
#include "tests/full.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

// Device memory in MiB that some plans of gpt2-tiny exceed.
constexpr int64_t kTightMemory = 12;

// A problem: a model, a batch and a part of a cluster.
struct Problem {
  std::string model = "gpt2-tiny";
  int64_t devices = 4;
  int64_t batch = 8;
  int64_t sequence = 64;
  std::string schedules = "1f1b";
  std::string plan = "";
  std::string network = "analytic";
  std::string runtime = "";
  // In MiB, 0 = all.
  int64_t memory = 0;
  std::string cluster = "dgx-a100-80g";
};

absl::StatusOr<SearchResult> RunSearch(const Problem& problem, bool exhaustive = false, int threads = 2,
                                       std::function<bool()> stop = nullptr) {
  static const Runtime* runtime = nullptr;
  SearchOptions options;
  Plan plan = Parse<Plan>(problem.plan);
  if (!problem.runtime.empty()) {
    runtime = new Runtime(*LoadRuntime(problem.runtime));
    options.runtime = runtime;
    options.space.under_runtime = true;
    plan = PlanUnder(*runtime, plan);
  }
  options.space.plan = plan;
  options.space.recipe.set_global_batch_sequences(problem.batch);
  options.space.recipe.set_sequence_length(problem.sequence);
  options.space.devices = problem.devices;
  options.space.schedules = {problem.schedules};
  options.cost = "roofline";
  options.network = problem.network;
  options.exhaustive = exhaustive;
  options.gap = 0;
  options.threads = threads;
  options.wanted = 3;
  options.memory_bytes = problem.memory << 20;
  options.stop = std::move(stop);
  return Search(*LoadModel(problem.model), *LoadCluster(problem.cluster), options);
}

std::vector<Problem> Problems() {
  std::vector<Problem> problems;
  const std::string two_stages = "mesh { axes { name: 'y' size: 1 } axes { name: 'pipe' size: 2 } } zero {} ";
  for (const char* schedule : {"1f1b", "interleaved", "hanayo", "chimera", "zb-h1", "zb-v", "v-half"}) {
    problems.push_back({.schedules = schedule, .plan = two_stages});
  }
  problems.push_back({.model = "llama-tiny", .plan = two_stages});
  problems.push_back({.model = "bert-tiny", .devices = 2, .plan = "offload {}"});
  problems.push_back({.devices = 2, .batch = 4, .plan = "zero { stage: 3 reshard: AFTER_BACKWARD } offload {}"});
  problems.push_back({.devices = 2, .batch = 16, .memory = kTightMemory});
  // Two nodes.
  problems.push_back({.devices = 16, .plan = "mesh { axes { name: 'x' size: 4 } } zero { stage: 1 } recompute {}"});
  for (const sim::NetworkModelEntry& network : sim::NetworkModels()) {
    problems.push_back({.devices = 2, .batch = 4, .plan = "offload {}", .network = std::string(network.name)});
  }
  for (const char* runtime : {"megatron-core", "torchtitan", "deepspeed", "torch-eager"}) {
    problems.push_back({.batch = 4, .network = "nccl", .runtime = runtime});
  }
  if (full) {
    for (const char* schedule : {"1f1b", "interleaved", "hanayo", "zb-h1"}) {
      problems.push_back({.batch = 16, .schedules = schedule});
      problems.push_back({.model = "llama-tiny", .devices = 8, .schedules = schedule});
    }
  }
  return problems;
}

std::string NameOf(const Problem& problem) {
  return absl::StrCat(problem.model, " ", problem.devices, " ", problem.schedules, " ", problem.network, " ",
                      problem.runtime, " ", problem.memory, " ", problem.plan);
}

TEST(Search, NoPlanIsFasterOrSmallerThanItsBound) {
  int plans = 0;
  for (const Problem& problem : Problems()) {
    const absl::StatusOr<SearchResult> all = RunSearch(problem, /*exhaustive=*/true);
    ASSERT_TRUE(all.ok()) << NameOf(problem) << ": " << all.status();
    ASSERT_FALSE(all->plans.empty()) << NameOf(problem);
    EXPECT_EQ(all->simulated + all->refused + all->unfit, all->space) << NameOf(problem);
    for (const FoundPlan& plan : all->plans) {
      EXPECT_LE(plan.least_seconds, plan.report.iteration_seconds() * (1 + 1e-9))
          << NameOf(problem) << ": " << plan.settings;
      EXPECT_LE(plan.least_bytes, plan.device_bytes) << NameOf(problem) << ": " << plan.settings;
      ++plans;
    }
  }
  EXPECT_GT(plans, 500);
}

TEST(Search, PrunedAndExhaustiveSearchFindTheSamePlan) {
  for (const Problem& problem : Problems()) {
    const absl::StatusOr<SearchResult> all = RunSearch(problem, /*exhaustive=*/true);
    const absl::StatusOr<SearchResult> pruned = RunSearch(problem);
    ASSERT_TRUE(all.ok() && pruned.ok()) << NameOf(problem) << ": " << all.status() << pruned.status();
    EXPECT_EQ(pruned->plans[0].report.iteration_seconds(), all->plans[0].report.iteration_seconds())
        << NameOf(problem) << ": " << pruned->plans[0].settings << " instead of " << all->plans[0].settings;
    EXPECT_EQ(pruned->gap, 0) << NameOf(problem);
    EXPECT_LT(pruned->simulated, all->simulated) << NameOf(problem);
    EXPECT_EQ(pruned->simulated + pruned->refused + pruned->unfit + pruned->slower, pruned->space) << NameOf(problem);
  }
}

TEST(Search, TheResultDoesNotDependOnTheNumberOfThreads) {
  const Problem problem = {.devices = 2, .batch = 16, .memory = kTightMemory};
  std::vector<std::string> reports;
  for (const int threads : {1, 3}) {
    const absl::StatusOr<SearchResult> result = RunSearch(problem, false, threads);
    ASSERT_TRUE(result.ok()) << result.status();
    reports.push_back(ReportOf(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), {}, *result).DebugString());
  }
  EXPECT_EQ(reports[0], reports[1]);
}

TEST(Search, AStoppedSearchSaysHowFarItCame) {
  int asked = 0;
  const absl::StatusOr<SearchResult> result = RunSearch({.devices = 2}, false, 2, [&] { return ++asked > 1; });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->stopped);
  EXPECT_GT(result->open, 0);
  EXPECT_EQ(result->simulated + result->refused + result->unfit + result->slower + result->open, result->space);
  ASSERT_FALSE(result->plans.empty());
  EXPECT_LE(result->least_seconds, result->plans[0].report.iteration_seconds());
}

TEST(Search, WithoutEnoughMemoryNoPlanIsFound) {
  const absl::StatusOr<SearchResult> result = RunSearch({.devices = 2, .memory = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->plans.empty());
  EXPECT_EQ(result->unfit + result->refused, result->space);
}

TEST(Search, EveryPlanFitsTheMemoryThatIsAllowed) {
  const absl::StatusOr<SearchResult> result =
      RunSearch({.devices = 2, .batch = 16, .memory = kTightMemory}, /*exhaustive=*/true);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->unfit, 0);
  for (const FoundPlan& plan : result->plans) EXPECT_LE(plan.device_bytes, kTightMemory << 20) << plan.settings;
}

TEST(Search, RefusesInputsThatItCannotSearch) {
  EXPECT_THAT(std::string(RunSearch({.batch = 0}).status().message()), HasSubstr("recipe.global_batch_sequences"));
  EXPECT_THAT(std::string(RunSearch({.devices = 2000}).status().message()), HasSubstr("has 1024"));
  EXPECT_THAT(std::string(RunSearch({.batch = 3, .plan = "mesh { axes { name: 'data' size: 4 } }"}).status().message()),
              HasSubstr("divide recipe.global_batch_sequences"));
  EXPECT_THAT(std::string(RunSearch({.schedules = "pipedream"}).status().message()), HasSubstr("changes the loss"));
}

}  // namespace
}  // namespace weft::planner
