#include "simulator/simulate_runs.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/simulate.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

// A program in which each of `ranks` ranks computes for a millisecond per repetition. Then all ranks sum 1 MB, and none
// continues before the sum is finished.
Program ComputeAndSum(int ranks) {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        mesh { axes { name: "data" size: 1 } }
        segments {
          name: "work"
          steps {
            name: "product"
            kernel: MATMUL
            stream: COMPUTE
            work { flops: 1000000000 dtype: FP32 }
          }
        }
        templates {
          name: "all"
          buffers { name: "gradients" bytes: 1000000 dtype: FP32 persistent: true place: DEVICE }
          body {
            id: 0
            kind: FORWARD
            deps { action: 1 distance: 1 }
          }
          body {
            id: 1
            kind: ALL_REDUCE
            deps { action: 0 }
            group { axes { axis: "data" } }
            purpose: GRADIENT_SYNC
            algorithm: "ring"
            sources: 0
            destinations: 0
          }
        }
      )pb",
      &program));
  program.mutable_mesh()->mutable_axes(0)->set_size(ranks);
  return program;
}

// A cluster with one device per node.
Cluster Nodes(int nodes) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "nodes"
        devices_per_node: 1
        nics_per_node: 1
        device {
          name: "device"
          memory_bytes: 1000000000
          peaks { dtype: FP32 flops_per_second: 1e12 }
        }
        inter_node { bytes_per_second: 1e10 }
        noise {}
      )pb",
      &cluster));
  cluster.set_nodes(nodes);
  return cluster;
}

SimulationReport Report(const Program& program, const Cluster& cluster, int64_t runs, int64_t seed = 1,
                        const std::string& network = "analytic") {
  SimulateOptions options;
  options.network = network;
  options.runs = runs;
  options.seed = seed;
  const absl::StatusOr<Simulation> simulation = Simulate(program, cluster, options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? simulation->report : SimulationReport();
}

constexpr double kCompute = 1e-3;

TEST(SimulateRuns, WithoutDeviationsAllRunsAreThePlainOne) {
  // All nodes are stragglers in every run, but with a slowdown of 1, so no run differs.
  Cluster cluster = Nodes(4);
  cluster.mutable_noise()->set_straggler_probability(1);
  cluster.mutable_noise()->set_straggler_slowdown(1);
  const SimulationReport report = Report(ComputeAndSum(4), cluster, 20);
  EXPECT_EQ(report.noise().runs(), 20);
  EXPECT_EQ(report.noise().seed(), 1);
  for (const double figure :
       {report.noise().p10(), report.noise().p50(), report.noise().p90(), report.noise().mean()}) {
    EXPECT_EQ(figure, report.iteration_seconds());
  }
  EXPECT_FALSE(Report(ComputeAndSum(4), Nodes(4), 0).has_noise());
}

TEST(SimulateRuns, IfAllNodesStraggleComputationTakesThatMuchLonger) {
  Cluster cluster = Nodes(4);
  cluster.mutable_noise()->set_straggler_probability(1);
  cluster.mutable_noise()->set_straggler_slowdown(2);
  const SimulationReport report = Report(ComputeAndSum(4), cluster, 3);
  const double sum = report.iteration_seconds() - kCompute;
  EXPECT_NEAR(sum, 2 * 3.0 / 4 * 1e6 / 1e10, 1e-9);
  EXPECT_NEAR(report.noise().p10(), 2 * kCompute + sum, 1e-11);
  EXPECT_EQ(report.noise().p10(), report.noise().p90());
}

// If each node is slow with probability p, at least one of n nodes is slow in 1 - (1 - p)^n of the runs, and all others
// wait for it.
TEST(SimulateRuns, OneStragglerHoldsUpAll) {
  Cluster cluster = Nodes(4);
  cluster.mutable_noise()->set_straggler_probability(0.1);
  cluster.mutable_noise()->set_straggler_slowdown(1.6);
  const SimulationReport report = Report(ComputeAndSum(4), cluster, 400);
  const double slow = 1 - std::pow(0.9, 4);
  EXPECT_EQ(report.noise().p10(), report.iteration_seconds());
  EXPECT_EQ(report.noise().p50(), report.iteration_seconds());
  EXPECT_NEAR(report.noise().p90(), report.iteration_seconds() + 0.6 * kCompute, 1e-11);
  EXPECT_NEAR(report.noise().mean(), report.iteration_seconds() + slow * 0.6 * kCompute,
              5 * 0.6 * kCompute * std::sqrt(slow * (1 - slow) / 400));
}

TEST(SimulateRuns, SlowInterfacesSlowWhatPassesThem) {
  Cluster cluster = Nodes(4);
  cluster.mutable_noise()->set_slow_interface_probability(1);
  cluster.mutable_noise()->set_slow_interface_fraction(0.25);
  const SimulationReport report = Report(ComputeAndSum(4), cluster, 2, 1, "flow");
  const double sum = report.iteration_seconds() - kCompute;
  EXPECT_NEAR(sum, 2 * 3.0 / 4 * 1e6 / 1e10, 1e-9);
  EXPECT_NEAR(report.noise().p50(), kCompute + 4 * sum, 1e-11);
}

// (n, mean of the greatest of n normal deviates). Source: Harter, "Expected values of normal order statistics",
// Biometrika 48, 1961, table 1.
constexpr double kGreatest[][2] = {{2, 0.56419}, {4, 1.02938}, {8, 1.42360}, {16, 1.76599}};

// Step times vary, and an iteration takes as long as the slowest rank needs: the more ranks, the longer.
TEST(SimulateRuns, TheSlowestOfManyRanksIsSlower) {
  constexpr double kDeviation = 0.05;
  for (const auto& [ranks, expected] : kGreatest) {
    Cluster cluster = Nodes(static_cast<int>(ranks));
    cluster.mutable_noise()->set_step_deviation(kDeviation);
    const SimulationReport report = Report(ComputeAndSum(static_cast<int>(ranks)), cluster, 100);
    const double greatest = (report.noise().mean() - report.iteration_seconds()) / kCompute / kDeviation;
    // There are 100 runs, and each is the mean of 8 iterations. The greatest of n normal deviates has a standard
    // deviation of at most 0.83.
    EXPECT_NEAR(greatest, expected, 5 * 0.83 / std::sqrt(800.0)) << ranks;
    EXPECT_LT(report.noise().p10(), report.noise().p50());
    EXPECT_LT(report.noise().p50(), report.noise().p90());
  }
}

// Like TheSlowestOfManyRanksIsSlower, but each device is faster or slower for a whole run. Time is 1 / speed, so the
// mean is a little longer.
TEST(SimulateRuns, TheSlowestOfManyDevicesIsSlower) {
  constexpr double kDeviation = 0.02;
  for (const auto& [ranks, expected] : kGreatest) {
    Cluster cluster = Nodes(static_cast<int>(ranks));
    cluster.mutable_noise()->set_device_speed_deviation(kDeviation);
    const SimulationReport report = Report(ComputeAndSum(static_cast<int>(ranks)), cluster, 300);
    const double greatest = (report.noise().mean() - report.iteration_seconds()) / kCompute / kDeviation;
    EXPECT_NEAR(greatest, expected + kDeviation * (1 + expected * expected), 5 * 0.83 / std::sqrt(300.0)) << ranks;
  }
}

TEST(SimulateRuns, TheSameSeedGivesTheSameBytes) {
  Cluster cluster = Nodes(4);
  cluster.mutable_noise()->set_step_deviation(0.02);
  cluster.mutable_noise()->set_device_speed_deviation(0.02);
  cluster.mutable_noise()->set_straggler_probability(0.2);
  cluster.mutable_noise()->set_straggler_slowdown(1.3);
  cluster.mutable_noise()->set_slow_interface_probability(0.2);
  cluster.mutable_noise()->set_slow_interface_fraction(0.5);
  const std::string bytes = Report(ComputeAndSum(4), cluster, 10, 7).SerializeAsString();
  EXPECT_EQ(bytes, Report(ComputeAndSum(4), cluster, 10, 7).SerializeAsString());
  EXPECT_NE(bytes, Report(ComputeAndSum(4), cluster, 10, 8).SerializeAsString());
  // Apart from the noise, the report is the same as without runs.
  SimulationReport report = Report(ComputeAndSum(4), cluster, 10, 7);
  report.clear_noise();
  EXPECT_EQ(report.SerializeAsString(), Report(ComputeAndSum(4), cluster, 0).SerializeAsString());
}

TEST(SimulateRuns, EveryRunIsTold) {
  Cluster cluster = Nodes(2);
  cluster.mutable_noise()->set_step_deviation(0.1);
  SimulateOptions options;
  options.runs = 3;
  std::vector<int64_t> told;
  const auto on_run = [&](int64_t run) { told.push_back(run); };
  const absl::StatusOr<NoiseReport> told_of = SimulateRuns(ComputeAndSum(2), cluster, options, on_run);
  ASSERT_TRUE(told_of.ok()) << told_of.status();
  EXPECT_THAT(told, testing::ElementsAre(1, 2, 3));
  // The callback does not change the result.
  EXPECT_EQ(told_of->SerializeAsString(), SimulateRuns(ComputeAndSum(2), cluster, options)->SerializeAsString());
}

TEST(SimulateRuns, RefusesRunsThatCannotBeDrawn) {
  Cluster cluster = Nodes(2);
  SimulateOptions options;
  options.runs = -1;
  EXPECT_THAT(std::string(Simulate(ComputeAndSum(2), cluster, options).status().message()),
              HasSubstr("runs = -1 must be from 1 to 1000000; nearest valid: 1"));
  options.runs = 2000000;
  EXPECT_THAT(std::string(Simulate(ComputeAndSum(2), cluster, options).status().message()),
              HasSubstr("nearest valid: 1000000"));
  options.runs = 2;
  cluster.mutable_noise()->set_step_deviation(3);
  EXPECT_THAT(std::string(Simulate(ComputeAndSum(2), cluster, options).status().message()),
              HasSubstr("cluster.noise.step_deviation = 3"));
  cluster.clear_noise();
  EXPECT_THAT(std::string(Simulate(ComputeAndSum(2), cluster, options).status().message()),
              HasSubstr("set cluster.noise"));
}

}  // namespace
}  // namespace weft::sim
