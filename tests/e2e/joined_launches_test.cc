// Predictions of weft's own GPU runs count launches as the executor makes them (proto/util/step_runs.h). The time of
// one launch counts once for all its steps, on every network, folded or not. Predictions for other runtimes do not join
// launches.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catalog/load.h"
#include "compiler/models/import_hf.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/step_runs.h"
#include "proto/util/units.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/network/network_model.h"
#include "simulator/simulate.h"
#include "simulator/testing/cluster_oracle.h"
#include "tests/e2e/published_run.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr double kLaunch = 2e-6;

Cluster Gpus(int capability) {
  absl::StatusOr<Cluster> cluster = LoadCluster("dgx-h200");
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  if (!cluster.ok()) return {};
  cluster->mutable_device()->set_compute_capability(capability);
  cluster->mutable_device()->set_launch_seconds(kLaunch);
  return *cluster;
}

Program Compiled(const TinyPlan& plan) {
  const absl::StatusOr<Program> program = CompileTiny(plan);
  EXPECT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
  return program.ok() ? *program : Program();
}

TinyPlan Small() {
  TinyPlan plan;
  plan.layers = 2;
  plan.batch = 4;
  plan.bf16 = true;
  return plan;
}

std::vector<TinyPlan> Plans() {
  std::vector<TinyPlan> plans(5, Small());
  plans[0].family = "llama";
  plans[0].pipe = 2;
  plans[0].data = 2;
  plans[1].exact = true;
  plans[1].data = 2;
  plans[2].plan_fields = "offload { optimizer: true }";
  plans[3].mesh = "x2 z2";
  plans[3].microbatch = 2;
  plans[3].recompute = true;
  plans[4].plan_fields = "zero { stage: 3 }";
  plans[4].data = 2;
  return plans;
}

// Returns a program with rows so long that the gradients of a norm's weights share a launch with the norm's backward.
Program Wide() {
  const absl::StatusOr<ModelGraph> model = ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 1040, "n_head": 2, "n_layer": 2})",
      "wide");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  PublishedRun wide;
  wide.recipe = "sequence_length: 32 global_batch_sequences: 2 dropout: 0";
  wide.plan = "mesh { axes { name: 'data' size: 1 } }";
  const absl::StatusOr<SimulatedRun> run = RunOn(*model, wide, Gpus(90));
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? run->program : Program();
}

sim::Simulation Simulated(const Program& program, const Cluster& cluster, const sim::SimulateOptions& options = {}) {
  absl::StatusOr<sim::Simulation> simulation = sim::Simulate(program, cluster, options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? *std::move(simulation) : sim::Simulation();
}

// Start and end of a step in picoseconds, by (rank, action id, step).
using Times = std::map<std::tuple<int64_t, int, int>, std::pair<int64_t, int64_t>>;

Times TimesOf(const Trace& trace) {
  Times times;
  for (const RankTrace& rank : trace.ranks()) {
    for (const TraceEvent& event : rank.events()) {
      times[{rank.rank(), event.action(), event.step()}] = {event.start_ps(), event.end_ps()};
    }
  }
  return times;
}

// The number of steps minus the number of launches, over all joined steps of a rank.
int64_t LaunchesSaved(const Program& program, int64_t rank) {
  const Template& t = program.templates(TemplateOfRank(program, rank));
  int64_t saved = 0;
  for (const Action& action : t.body()) {
    for (const StepRange& range : FindStepRuns(action.kind(), PlacedStepsOf(program, t, action))) {
      saved += range.count - static_cast<int64_t>(range.launches.size());
    }
  }
  return saved;
}

// The naive simulator prices launches with its own code, action by action, and must give the same times.
TEST(JoinedLaunches, TheOracleSaysTheSameOnEveryNetworkFoldedOrNot) {
  std::vector<std::pair<std::string, Program>> programs = {{"wide", Wide()}};
  for (const TinyPlan& plan : Plans()) programs.emplace_back(plan.Name(), Compiled(plan));
  for (const auto& [of, program] : programs) {
    const Cluster cluster = Gpus(90);
    for (const char* name : {"analytic", "flow"}) {
      SCOPED_TRACE(of + ", " + name);
      const absl::StatusOr<const sim::NetworkModelEntry*> entry = sim::FindNetworkModel(name);
      ASSERT_TRUE(entry.ok()) << entry.status();
      const std::unique_ptr<sim::NetworkModel> network = (*entry)->make(program.mesh(), cluster);
      const sim::NaiveResult naive =
          sim::SimulateNaively(program, sim::ClusterDurations(program, cluster, "roofline", *network),
                               sim::ClusterOptions(program, cluster, 1));
      ASSERT_TRUE(naive.complete);
      Times expected;
      for (const sim::NaiveStep& step : naive.steps)
        expected[{step.rank, step.action_id, step.step}] = {step.start, step.end};
      for (const bool fold : {true, false}) {
        sim::SimulateOptions options;
        options.network = name;
        options.fold = fold;
        options.trace = true;
        const sim::Simulation simulation = Simulated(program, cluster, options);
        ASSERT_TRUE(simulation.trace.has_value());
        EXPECT_EQ(TimesOf(*simulation.trace), expected) << "folding " << fold;
        EXPECT_EQ(simulation.report.makespan_seconds(), ToSeconds(Time{naive.makespan}));
      }
    }
  }
}

// The comparison with the naive simulator must cover a launch of a norm with all its steps.
TEST(JoinedLaunches, ANormIsWithAllThatItMakes) {
  const Program program = Wide();
  ASSERT_EQ(program.templates_size(), 1);
  const Template& t = program.templates(0);
  size_t most = 0;
  for (const Action& action : t.body()) {
    if (RunsUpdates(action.kind())) continue;
    for (const StepRange& range : FindStepRuns(action.kind(), PlacedStepsOf(program, t, action))) {
      for (const std::vector<int>& launch : range.launches) most = std::max(most, launch.size());
    }
  }
  EXPECT_EQ(most, 4u);
}

// Each launch costs its launch time once, if weft's executor joins launches on the device.
TEST(JoinedLaunches, EachLaunchIsPaidOnce) {
  for (const TinyPlan& plan : Plans()) {
    SCOPED_TRACE(plan.Name());
    const Program program = Compiled(plan);
    // Busy seconds with a launch time of `launch` seconds. The executor joins launches at capability 90 but not at 70.
    const auto busy = [&](int capability, double launch) {
      Cluster cluster = Gpus(capability);
      cluster.mutable_device()->set_launch_seconds(launch);
      return Simulated(program, cluster).report.per_rank(0).busy_seconds();
    };
    const double launches = (busy(90, 1) - busy(90, 0)), steps = (busy(70, 1) - busy(70, 0));
    EXPECT_NEAR(steps - launches, static_cast<double>(LaunchesSaved(program, 0)), 1e-6);
    EXPECT_GT(LaunchesSaved(program, 0), 30);
  }
}

TEST(JoinedLaunches, OnlyWhereTheExecutorJoins) {
  const Program program = Compiled(Small());
  const Cluster cluster = Gpus(90);
  const absl::StatusOr<Runtime> weft = LoadRuntime("weft");
  ASSERT_TRUE(weft.ok()) << weft.status();
  Runtime other;
  other.set_name("other");
  sim::SimulateOptions by_name, by_other, by_unit, by_unit_elsewhere;
  by_name.runtime = &*weft;
  by_other.runtime = &other;
  by_unit.cost = "unit";
  const SimulationReport own = Simulated(program, cluster).report;
  // If no runtime is given, the simulator uses the catalog's runtime `weft`.
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(own, Simulated(program, cluster, by_name).report));
  const double apart = Simulated(program, cluster, by_other).report.per_rank(0).busy_seconds();
  EXPECT_GT(apart, own.per_rank(0).busy_seconds() + 30 * kLaunch);
  // No launches are joined on a machine without GPUs, nor under unit costs.
  EXPECT_EQ(Simulated(program, Gpus(0)).report.per_rank(0).busy_seconds(), apart);
  EXPECT_EQ(Simulated(program, cluster, by_unit).report.iteration_seconds(),
            Simulated(program, Gpus(0), by_unit).report.iteration_seconds());
}

// The first step of a launch has the time of the whole launch, as in a measured trace. The bounds count the bytes that
// are moved.
TEST(JoinedLaunches, TheFirstStepHasTheTimeOfAll) {
  const Program program = Compiled(Small());
  sim::SimulateOptions options;
  options.trace = true;
  const sim::Simulation simulation = Simulated(program, Gpus(90), options);
  ASSERT_TRUE(simulation.trace.has_value());
  const Times times = TimesOf(*simulation.trace);
  int joined = 0;
  for (const Action& action : program.templates(0).body()) {
    for (const StepRange& range : FindStepRuns(action.kind(), PlacedStepsOf(program, program.templates(0), action))) {
      const auto first = times.at({0, action.id(), range.first});
      EXPECT_GE(first.second - first.first, FromSeconds(kLaunch).ps * static_cast<int64_t>(range.launches.size()));
      for (int step = range.first + 1; step < range.first + range.count; ++step) {
        const std::pair<int64_t, int64_t> nothing = {first.second, first.second};
        EXPECT_EQ(times.at({0, action.id(), step}), nothing) << action.id() << " " << step;
      }
      joined += range.count;
    }
  }
  EXPECT_GT(joined, 50);
  const LowerBounds& bounds = simulation.report.bounds();
  EXPECT_LE(bounds.compute_seconds(), bounds.costed_seconds());
  // Without launch times and efficiency tables, the bounds compute_seconds and costed_seconds agree.
  Cluster ideal = Gpus(90);
  ideal.mutable_device()->clear_launch_seconds();
  ideal.mutable_device()->clear_memory_efficiency();
  ideal.mutable_device()->clear_matmul_efficiency();
  const LowerBounds met = Simulated(program, ideal).report.bounds();
  EXPECT_NEAR(met.compute_seconds(), met.costed_seconds(), 1e-3 * met.costed_seconds());
}

}  // namespace
}  // namespace weft
