// Compares estimates with compiled programs, over schedules, ZeRO stages, recompute, tensor axes and runtimes.
#include "planner/fit/memory_estimate.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/set_field.h"
#include "proto/validate/validate_runtime.h"

namespace weft::planner {
namespace {

struct Case {
  std::string model;
  // Settings as --set takes them, separated by spaces.
  std::string settings;
  std::string runtime = "weft";
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.model << " " << c.settings << " " << c.runtime;
}

struct Given {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  std::optional<Runtime> runtime;

  explicit Given(const Case& c) : model(*LoadModel(c.model)), cluster(*LoadCluster("dgx-h100")) {
    if (c.runtime != "weft") {
      runtime = *LoadRuntime(c.runtime);
      plan = PlanUnder(*runtime, plan);
      // As in weft fit, a recompute mode in the settings replaces all of the runtime's recompute.
      if (c.settings.find("recompute.mode") != std::string::npos) plan.clear_recompute();
    }
    for (const std::string& setting : std::vector<std::string>(absl::StrSplit(c.settings, ' '))) {
      const absl::Status applied = ApplySetting(setting, &recipe, &plan);
      EXPECT_TRUE(applied.ok()) << applied;
    }
  }
  MemoryEstimator Estimator() const { return {model, cluster, "tiles", runtime ? &*runtime : nullptr}; }
};

class Estimates : public testing::TestWithParam<Case> {};

// The fullest rank's bytes are within the stated error of those of the compiled program. Other ranks may have larger
// gaps between buffers, which the estimate does not count.
TEST_P(Estimates, AreCloseToCompiledPrograms) {
  const Given given(GetParam());
  MemoryEstimator estimator = given.Estimator();
  const absl::StatusOr<PlanMemory> estimate = estimator.Estimate(given.recipe, given.plan);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const absl::StatusOr<PlanMemory> compiled = estimator.Compile(given.recipe, given.plan);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(estimate->ranks.size(), compiled->ranks.size());
  EXPECT_EQ(estimate->basis, Basis::kEstimated);
  constexpr double kErrorOfRanks = 0.13;
  double worst = 0;
  for (size_t rank = 0; rank < estimate->ranks.size(); ++rank) {
    const RankMemory &guess = estimate->ranks[rank], &real = compiled->ranks[rank];
    const double error = static_cast<double>(guess.device_bytes) / static_cast<double>(real.device_bytes) - 1;
    if (std::abs(error) > std::abs(worst)) worst = error;
    EXPECT_LE(std::abs(error), kErrorOfRanks)
        << "rank " << rank << ": estimated " << guess.device_bytes << ", compiled " << real.device_bytes << "; planned "
        << guess.planned_bytes << " and " << real.planned_bytes;
  }
  const double fullest =
      static_cast<double>(estimate->MostDeviceBytes()) / static_cast<double>(compiled->MostDeviceBytes()) - 1;
  EXPECT_LE(std::abs(fullest), estimate->error);
  std::cout << "[estimate] " << GetParam() << ": fullest rank " << 100 * fullest << " %, worst " << 100 * worst
            << " %\n";
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::string gpt = "seq=1024 gbs=64 mbs=1 ";
  // Schedules.
  for (const char* schedule : {"1f1b", "gpipe", "interleaved vpp=3", "zb-h1", "zb-h2", "zb-v", "v-half",
                               "hanayo waves=2", "chimera", "dualpipe", "dualpipev"}) {
    cases.push_back({"gpt2-medium", absl::StrCat(gpt, "pp=4 dp=2 schedule=", schedule)});
  }
  // ZeRO and recompute, on one rank and on a pipeline.
  for (const char* recompute : {"NONE", "FULL", "SELECTIVE attention=MATERIALIZED"}) {
    for (int zero = 0; zero <= 3; ++zero) {
      for (const char* mesh : {"dp=8", "pp=4 dp=4"}) {
        cases.push_back({"gpt2-medium", absl::StrCat(gpt, mesh, " zero.stage=", zero, " recompute.mode=", recompute)});
      }
    }
  }
  // Large models and tensor axes.
  const std::string llama = "seq=4096 gbs=32 mbs=1 ";
  for (const char* plan :
       {"tp=2 dp=4 zero.stage=1", "tp=4 dp=2 sequence_parallel=true", "tp=8 recompute.mode=FULL sequence_parallel=true",
        "tp=2 pp=4 zero.stage=1 dp=2", "mbs=2 tp=2 pp=2 dp=2", "x=2 y=2 dp=2", "mbs=2 x=2 z=2 dp=2",
        "pp=4 dp=2 zero.stage=3 recompute.mode=FULL", "pp=8 schedule=zb-v", "tp=4 dp=2 attention=MATERIALIZED",
        "pp=2 dp=4 zero.stage=1 offload.optimizer=true", "pp=2 dp=4 zero.stage=2 transfer_placement=DEFERRED",
        "tp=2 pp=2 dp=2 zero.stage=3 zero.reshard=NEVER", "dp=8 zero.stage=1 zero.group=4",
        "pp=2 dp=4 accumulation=EXACT", "pp=2 dp=4 gradient_bucket_bytes=100000000 zero.stage=1"}) {
    cases.push_back({"llama-3.1-8b", absl::StrCat("seq=4096 gbs=32 ", plan)});
  }
  // Frameworks.
  for (const char* runtime : {"megatron-core", "torchtitan", "deepspeed", "megatron-2022"}) {
    for (const char* plan : {"tp=4 pp=2 dp=1", "pp=4 dp=2 zero.stage=1", "dp=8 zero.stage=1 recompute.mode=FULL"}) {
      cases.push_back({"llama-3.1-8b", absl::StrCat(llama, plan), runtime});
    }
  }
  cases.push_back({"llama-3.1-8b", llama + "dp=8 zero.stage=3", "torchtitan"});
  cases.push_back({"llama-3.1-8b", llama + "pp=4 dp=2 schedule=interleaved vpp=2", "megatron-core"});
  cases.push_back({"llama-3.1-8b", llama + "pp=4 dp=2 schedule=zb-v", "torchtitan"});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Estimates, testing::ValuesIn(Cases()));

TEST(MemoryEstimate, AsksForTheCompilerWhereListsCannotTell) {
  for (const char* plan : {"pp=4 schedule=axonn", "pp=2 recompute.mode=INTERVAL recompute.interval=2",
                           "pp=2 offload.activation_layers=1"}) {
    const Given given({"gpt2-tiny", absl::StrCat("seq=64 gbs=8 ", plan)});
    const absl::Status status = given.Estimator().Estimate(given.recipe, given.plan).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << plan << ": " << status;
  }
}

TEST(MemoryEstimate, RefusesWhatTheCompilerRefuses) {
  for (const char* plan : {"tp=3", "pp=4 schedule=none", "dp=3", "pp=2 partition.layers_per_stage=[1,1]"}) {
    const Given given({"gpt2-tiny", absl::StrCat("seq=64 gbs=8 ", plan)});
    MemoryEstimator estimator = given.Estimator();
    EXPECT_FALSE(estimator.Estimate(given.recipe, given.plan).ok()) << plan;
    EXPECT_FALSE(estimator.Compile(given.recipe, given.plan).ok()) << plan;
  }
}

// The first node is slow, so its stage has few layers and little to hold.
TEST(MemoryEstimator, CutsAsTheCompilerDoesForSeveralKindsOfDevices) {
  Given given({"gpt2", "pp=2 dp=8 gbs=32 mbs=1 seq=256"});
  OtherDevices* slow = given.cluster.add_other_devices();
  slow->add_nodes(0);
  slow->set_speed(0.4);
  const absl::StatusOr<PlanMemory> estimate = given.Estimator().Estimate(given.recipe, given.plan);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const absl::StatusOr<PlanMemory> compiled = given.Estimator().Compile(given.recipe, given.plan);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(estimate->ranks.size(), 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto real = static_cast<double>(compiled->ranks[rank].device_bytes);
    EXPECT_NEAR(static_cast<double>(estimate->ranks[rank].device_bytes), real, 0.1 * real) << rank;
  }
  Given alike = given;
  alike.cluster.clear_other_devices();
  const absl::StatusOr<PlanMemory> even = alike.Estimator().Compile(alike.recipe, alike.plan);
  ASSERT_TRUE(even.ok()) << even.status();
  EXPECT_LT(compiled->ranks[0].device_bytes, even->ranks[0].device_bytes);
  EXPECT_GT(compiled->ranks[1].device_bytes, even->ranks[1].device_bytes);
}

}  // namespace
}  // namespace weft::planner
