#include "planner/search/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "planner/search/plan_report.h"
#include "proto/io/set_field.h"
#include "proto/util/status.h"
#include "proto/validate/validate_runtime.h"
#include "simulator/network/network_model.h"
#include "tests/full.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

// Device memory in MiB that some plans of gpt2-tiny exceed.
constexpr int64_t kTightMemory = 12;

// A model, a batch, a part of a cluster, and the dimensions that the search leaves out.
struct Problem {
  std::string model = "gpt2-tiny";
  int64_t devices = 2;
  int64_t batch = 2;
  int64_t sequence = 64;
  std::string schedule = "1f1b";
  std::string plan = "";
  std::string network = "analytic";
  std::string runtime = "";
  // Device memory in MiB; 0 = all that the device has.
  int64_t memory = 0;
  // Rows of Cluster.other_devices. A device with the name "H100" gets the catalog's figures, but keeps its memory.
  std::string others = "";
  std::vector<std::string> excluded = {"offload", "recompute"};
};

std::ostream& operator<<(std::ostream& out, const Problem& problem) {
  return out << problem.model << " " << problem.devices << " " << problem.schedule << " " << problem.network << " "
             << problem.runtime << " " << problem.memory << " " << problem.plan << " " << problem.others;
}

struct HowToRun {
  bool exhaustive = false;
  int threads = 2;
  // The search stops when this many plans are simulated; 0 = never.
  int64_t stop_after = 0;
};

SearchOptions OptionsFor(const Problem& problem) {
  SearchOptions options;
  options.space.plan = Parse<Plan>(problem.plan);
  options.space.recipe.set_global_batch_sequences(problem.batch);
  options.space.recipe.set_sequence_length(problem.sequence);
  options.space.devices = problem.devices;
  options.space.schedules = {problem.schedule};
  options.space.excluded = problem.excluded;
  options.cost = "roofline";
  options.network = problem.network;
  options.gap = 0;
  options.threads = 2;
  options.wanted = 3;
  options.memory_bytes = problem.memory << 20;
  return options;
}

Cluster ClusterFor(const Problem& problem) {
  Cluster cluster = *LoadCluster("dgx-a100-80g");
  cluster.MergeFrom(Parse<Cluster>(problem.others));
  for (OtherDevices& other : *cluster.mutable_other_devices()) {
    if (other.device().name() != "H100") continue;
    const int64_t memory = other.device().memory_bytes();
    *other.mutable_device() = LoadCluster("dgx-h100")->device();
    if (memory > 0) other.mutable_device()->set_memory_bytes(memory + other.device().reserved_bytes());
  }
  return cluster;
}

absl::StatusOr<SearchResult> RunSearch(const Problem& problem, const HowToRun& how = {}) {
  SearchOptions options = OptionsFor(problem);
  std::optional<Runtime> runtime;
  if (!problem.runtime.empty()) {
    runtime = *LoadRuntime(problem.runtime);
    options.runtime = &*runtime;
    options.space.under_runtime = true;
    options.space.plan = PlanUnder(*runtime, options.space.plan);
    options.space.plan.clear_recompute();
  }
  options.exhaustive = how.exhaustive;
  options.threads = how.threads;
  int64_t simulated = 0;
  options.on_progress = [&](const SearchProgress& progress) { simulated = progress.simulated; };
  options.stop = [&] { return how.stop_after > 0 && simulated >= how.stop_after; };
  return Search(*LoadModel(problem.model), ClusterFor(problem), options);
}

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

// The fastest plans of a space, found without the code of the search.
struct OracleResult {
  int64_t plans = 0;
  int64_t fit = 0;
  double seconds = std::numeric_limits<double>::max();
  // All plans that take these seconds.
  std::vector<std::string> settings;
};

// Tries every plan of the problem: the dimensions of docs/planning.md as nested loops. All devices are in one node of a
// power of two. The plan of the problem fixes the number of pipe ranks, with their layers, and y and z = 1 unless
// `searches_yz`; recompute is excluded.
class Oracle {
 public:
  Oracle(const Problem& problem, int64_t pipe, bool searches_yz)
      : problem_(problem),
        pipe_(pipe),
        searches_yz_(searches_yz),
        model_(*LoadModel(problem.model)),
        cluster_(*LoadCluster("dgx-a100-80g")),
        fixed_(Parse<Plan>(problem.plan)) {
    if (problem.memory > 0) {
      cluster_.mutable_device()->set_memory_bytes((problem.memory << 20) + cluster_.device().reserved_bytes());
    }
    fixed_.clear_mesh();
  }

  OracleResult Run() {
    const std::vector<std::string> zeros =
        Choices("zero", fixed_.has_zero(), {"", " zero.stage=1", " zero.stage=2", " zero.stage=3"});
    const std::vector<std::string> reshards =
        Choices("reshard", fixed_.has_zero(), {"", " zero.reshard=AFTER_BACKWARD", " zero.reshard=NEVER"});
    const std::vector<std::string> sequence_parallel =
        Choices("sequence-parallel", fixed_.sequence_parallel(), {"", " sequence_parallel=true"});
    const std::vector<std::string> between_halves =
        Choices("between-halves", fixed_.between_halves() != OWN_ROWS,
                {"", " between_halves=GATHERED_ROWS", " between_halves=EVERYTHING"});
    const std::vector<std::string> offloads = Choices("offload", fixed_.has_offload(), {"", " offload.optimizer=true"});
    const std::vector<std::string> none = {""};
    const bool has_microbatches = Choices("microbatch", false, {"", ""}).size() > 1;
    const int64_t devices = problem_.devices / pipe_;
    for (int64_t x = 1; x <= devices; x *= 2) {
      for (int64_t y = 1; x * y <= devices && (y == 1 || searches_yz_); y *= 2) {
        for (int64_t z = 1; x * y * z <= devices && (z == 1 || searches_yz_); z *= 2) {
          const int64_t data = devices / (x * y * z);
          std::string mesh;
          for (const auto& [name, size] : {std::pair("x", x), std::pair("y", y), std::pair("z", z),
                                           std::pair("dp", data), std::pair("pp", pipe_)}) {
            if (size > 1) absl::StrAppend(&mesh, mesh.empty() ? "" : " ", name, "=", size);
          }
          if (mesh.empty()) mesh = "dp=1";
          for (int64_t size = 1; data * size <= problem_.batch; size *= 2) {
            if (problem_.batch % (data * size) != 0 || (size > 1 && !has_microbatches)) continue;
            const std::string microbatch = has_microbatches ? absl::StrCat(" mbs=", size) : "";
            const std::string schedule = pipe_ > 1 ? " schedule=" + problem_.schedule : "";
            for (const std::string& zero : data > 1 ? zeros : none) {
              for (const std::string& reshard : zero == zeros.back() && zeros.size() > 1 ? reshards : none) {
                for (const std::string& parallel : x > 1 && y == 1 ? sequence_parallel : none) {
                  const bool has_halves = !parallel.empty() && schedule == " schedule=zb-h1";
                  for (const std::string& halves : has_halves ? between_halves : none) {
                    for (const std::string& offload : offloads) {
                      Try(absl::StrCat(mesh, microbatch, schedule, zero, reshard, parallel, halves, offload));
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
    return result_;
  }

 private:
  std::vector<std::string> Choices(const std::string& dimension, bool is_fixed, std::vector<std::string> choices) {
    const auto& excluded = problem_.excluded;
    const bool is_excluded = std::find(excluded.begin(), excluded.end(), dimension) != excluded.end();
    return is_fixed || is_excluded ? std::vector<std::string>{""} : choices;
  }

  absl::StatusOr<Evaluation> Evaluated(const std::string& settings) {
    Recipe recipe;
    recipe.set_global_batch_sequences(problem_.batch);
    recipe.set_sequence_length(problem_.sequence);
    Plan plan = fixed_;
    std::string setting;
    for (size_t at = 0; at < settings.size(); at += setting.size() + 1) {
      setting = settings.substr(at, settings.find(' ', at) - at);
      WEFT_RETURN_IF_ERROR(ApplySetting(setting, &recipe, &plan));
    }
    WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(model_, recipe, plan, cluster_, /*notes=*/nullptr));
    inputs.cost = "roofline";
    WEFT_RETURN_IF_ERROR(Resolve(inputs, /*evaluation=*/true, /*runtime=*/nullptr, nullptr).status());
    return Evaluate({.inputs = inputs, .evaluation = true, .network = problem_.network});
  }

  void Try(const std::string& settings) {
    ++result_.plans;
    const absl::StatusOr<Evaluation> made = Evaluated(settings);
    if (!made.ok() || !made->fits) return;
    ++result_.fit;
    const double seconds = made->report.iteration_seconds();
    if (seconds < result_.seconds) result_.settings.clear();
    result_.seconds = std::min(result_.seconds, seconds);
    if (seconds == result_.seconds) result_.settings.push_back(settings);
  }

  const Problem& problem_;
  const int64_t pipe_;
  const bool searches_yz_;
  const ModelGraph model_;
  Cluster cluster_;
  Plan fixed_;
  OracleResult result_;
};

class RandomProblems : public testing::TestWithParam<int> {};

constexpr int kRandomGroups = 20, kRandomOfGroup = 5;

TEST_P(RandomProblems, HaveTheFastestPlanOfTheOracle) {
  std::mt19937_64 random(20261100 + GetParam());
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  for (int i = 0; i < kRandomOfGroup; ++i) {
    const std::array models = {"gpt2-tiny", "llama-tiny", "bert-tiny"};
    const std::array schedules = {"1f1b", "gpipe", "zb-h1", "eager-1f1b", "gems", "chimera"};
    const std::array fixed = {"",
                              "zero { stage: 3 reshard: AFTER_BACKWARD }",
                              "accumulation: EXACT",
                              "step_barrier: true",
                              "collective: 'direct'",
                              "precision { compute: FP32 }",
                              "zero { stage: 1 }",
                              "overlap { reduce_scatter: false all_gather: false }",
                              "transfer_order: TOGETHER",
                              "gradient_bucket_bytes: 20000"};
    const auto networks = sim::NetworkModels();
    Problem problem{.model = models[below(models.size())],
                    .devices = int64_t{1} << below(3),
                    .batch = int64_t{1} << below(3),
                    .sequence = 16 << below(2),
                    .schedule = schedules[below(schedules.size())],
                    .plan = fixed[below(fixed.size())],
                    .network = std::string(networks[below(networks.size())].name),
                    .memory = below(3) == 0 ? 3 + below(12) : 0,
                    .excluded = {"recompute"}};
    if (below(4) > 0) problem.excluded.push_back("offload");
    if (below(2) == 0) problem.excluded.push_back("zero");
    if (below(2) == 0) problem.excluded.push_back("microbatch");
    const bool searches_yz = below(4) == 0;
    const int64_t pipe = problem.devices > 1 && below(2) == 0 ? 2 : 1;
    absl::StrAppend(&problem.plan, " mesh { axes { name: 'pipe' size: ", pipe, " } ",
                    searches_yz ? "" : "axes { name: 'y' size: 1 } axes { name: 'z' size: 1 }", " }");
    if (pipe > 1) {
      const ModelGraph model = *LoadModel(problem.model);
      int64_t layers = 0;
      for (const GraphOp& op : model.ops()) layers = std::max<int64_t>(layers, op.layer() + 1);
      const int64_t first = 1 + below(layers - 1);
      absl::StrAppend(&problem.plan, " partition { layers_per_stage: ", first, " layers_per_stage: ", layers - first,
                      " }");
    }
    const std::string trace = absl::StrCat(testing::PrintToString(problem), " batch ", problem.batch);
    SCOPED_TRACE(trace);
    const OracleResult oracle = Oracle(problem, pipe, searches_yz).Run();
    for (const bool exhaustive : {false, true}) {
      // The oracle is exhaustive too, so the exhaustive search runs on some problems only.
      if (exhaustive && i > 0) continue;
      const absl::StatusOr<SearchResult> result = RunSearch(problem, {.exhaustive = exhaustive, .threads = 1});
      if (oracle.fit == 0) {
        EXPECT_TRUE(!result.ok() || result->plans.empty()) << result->plans[0].settings;
        continue;
      }
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_FALSE(result->plans.empty()) << oracle.settings[0];
      EXPECT_EQ(result->space, oracle.plans);
      if (exhaustive) {
        EXPECT_EQ(result->simulated, oracle.fit);
      }
      EXPECT_EQ(result->gap, 0);
      EXPECT_EQ(result->plans[0].report.iteration_seconds(), oracle.seconds) << oracle.settings[0];
      EXPECT_THAT(oracle.settings, testing::Contains(result->plans[0].settings));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, RandomProblems, testing::Range(0, kRandomGroups));

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
