// Compares searches of small random problems with an oracle: nested loops over the documented choices, each of which is
// compiled and simulated.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "planner/search/search.h"
#include "planner/search/search_testing.h"
#include "proto/io/set_field.h"
#include "proto/util/status.h"
#include "simulator/network/network_model.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

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

}  // namespace
}  // namespace weft::planner
