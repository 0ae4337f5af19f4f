#include "simulator/what_if.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refusal(const std::string& text) {
  const auto changes = ParseWhatIf(text);
  EXPECT_FALSE(changes.ok()) << text;
  return std::string(changes.status().message());
}

Cluster Parsed(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster));
  return cluster;
}

std::string Changed(const std::string& cluster, const std::string& changes) {
  const auto parsed = ParseWhatIf(changes);
  if (!parsed.ok()) return parsed.status().ToString();
  const auto changed = ChangedCluster(Parsed(cluster), *parsed);
  return changed.ok() ? changed->ShortDebugString() : changed.status().ToString();
}

TEST(ParseWhatIf, ReadsNamesAndFactors) {
  const auto changes = ParseWhatIf("nic=2x,compute=1.25");
  ASSERT_TRUE(changes.ok()) << changes.status();
  ASSERT_EQ(changes->size(), 2u);
  EXPECT_EQ((*changes)[0].name, "nic");
  EXPECT_EQ((*changes)[0].factor, 2);
  EXPECT_EQ((*changes)[0].text, "nic=2x");
  EXPECT_EQ((*changes)[1].name, "compute");
  EXPECT_EQ((*changes)[1].factor, 1.25);
  for (const std::string& name : WhatIfNames()) {
    EXPECT_TRUE(ParseWhatIf(name + "=0.01x").ok()) << name;
    EXPECT_TRUE(ParseWhatIf(name + "=100").ok()) << name;
  }
}

TEST(ParseWhatIf, RefusesByName) {
  EXPECT_THAT(Refusal("nik=2x"), HasSubstr("unknown what-if 'nik'; nearest: 'nic'; known: compute, host, intra"));
  EXPECT_THAT(Refusal(""), HasSubstr("'' is not of the form NAME=FACTOR"));
  // If the name is known, the error suggests no nearest name.
  EXPECT_EQ(Refusal("nic"), "'nic' is not of the form NAME=FACTOR, e.g. nic=2x");
  EXPECT_EQ(Refusal("memory"), "'memory' is not of the form NAME=FACTOR, e.g. memory=2x");
  EXPECT_THAT(Refusal("nik"), HasSubstr("e.g. nic=2x; nearest: 'nic'"));
  EXPECT_THAT(Refusal("nic=2x,"), HasSubstr("is not of the form"));
  EXPECT_THAT(Refusal("nic=010"),
              HasSubstr("nic='010': expected a factor from 0.01 to 100, e.g. 2x or 0.5x without a 0"));
  EXPECT_THAT(Refusal("nic=+2"), HasSubstr("e.g. 2x or 0.5x without a + in front"));
  EXPECT_THAT(Refusal("nic=0"), HasSubstr("nic=0x is out of range; allowed: 0.01 to 100, nearest valid: 0.01"));
  EXPECT_THAT(Refusal("nic=100.1x"), HasSubstr("nearest valid: 100"));
  EXPECT_THAT(Refusal("nic=0.009x"), HasSubstr("nearest valid: 0.01"));
  for (const char* factor : {"", "x", "2xx", "-2x", "1e1x", "inf", "nan", "0x10", "2 x", "1.2.3x", ".", "two"}) {
    EXPECT_THAT(Refusal(std::string("nic=") + factor), HasSubstr("expected a factor from 0.01 to 100")) << factor;
  }
  EXPECT_THAT(Refusal("nic=2x,nic=3x"), HasSubstr("nic is changed twice, by nic=2x and nic=3x"));
}

TEST(ChangedCluster, ChangesWhatIsStatedAndNothingElse) {
  const std::string links =
      "intra_node { bytes_per_second: 8 latency_seconds: 4 } inter_node { bytes_per_second: 16 overhead_seconds: 2 }"
      "host { bytes_per_second: 32 } node_links { direct { link { bytes_per_second: 64 } } bridge { latency_seconds: 6 "
      "} }"
      "fabric { hop_latency_seconds: 10 }";
  EXPECT_EQ(Changed(links, "nic=2x"), Parsed("intra_node { bytes_per_second: 8 latency_seconds: 4 } inter_node { "
                                             "bytes_per_second: 32 overhead_seconds: 2 } host { bytes_per_second: 32 } "
                                             "node_links { direct { link { bytes_per_second: 64 } } bridge { "
                                             "latency_seconds: 6 } } fabric { hop_latency_seconds: 10 }")
                                          .ShortDebugString());
  EXPECT_EQ(Changed(links, "intra=0.5x"), Parsed("intra_node { bytes_per_second: 4 latency_seconds: 4 } inter_node { "
                                                 "bytes_per_second: 16 overhead_seconds: 2 } host { bytes_per_second: "
                                                 "32 } node_links { direct { link { bytes_per_second: 32 } } bridge { "
                                                 "latency_seconds: 6 } } fabric { hop_latency_seconds: 10 }")
                                              .ShortDebugString());
  EXPECT_EQ(Changed(links, "latency=0.5x,host=2x"),
            Parsed("intra_node { bytes_per_second: 8 latency_seconds: 2 } inter_node { "
                   "bytes_per_second: 16 overhead_seconds: 1 } host { bytes_per_second: "
                   "64 } node_links { direct { link { bytes_per_second: 64 } } bridge { "
                   "latency_seconds: 3 } } fabric { hop_latency_seconds: 5 }")
                .ShortDebugString());
  const std::string device =
      "device { memory_bytes: 7 memory_bytes_per_second: 10 launch_seconds: 3 peaks { dtype: BF16 flops_per_second: "
      "100 }"
      " matmul_efficiency { from: 5 fraction: 0.5 } communication_load { memory_bytes_per_second: 9 }"
      " kernel_rates { from_work: 5 flops_per_second: 20 bytes_per_second: 30 overhead_seconds: 40 } }"
      " other_devices { speed: 0.5 } other_devices { device { peaks { dtype: BF16 flops_per_second: 50 } } }";
  EXPECT_EQ(Changed(device, "compute=2x,memory=3x,launch=0.5x"),
            Parsed("device { memory_bytes: 7 memory_bytes_per_second: 30 launch_seconds: 1.5 peaks { dtype: BF16 "
                   "flops_per_second: 200 } matmul_efficiency { from: 5 fraction: 0.5 } communication_load { "
                   "memory_bytes_per_second: 9 } kernel_rates { from_work: 5 flops_per_second: 40 bytes_per_second: 90 "
                   "overhead_seconds: 20 } } other_devices { speed: 0.5 } other_devices { device { peaks { dtype: BF16 "
                   "flops_per_second: 100 } } }")
                .ShortDebugString());
}

TEST(ChangedCluster, RefusesWhatTheClusterDoesNotState) {
  for (const std::string& name : WhatIfNames()) {
    EXPECT_THAT(Changed("name: 'bare'", name + "=2x"),
                HasSubstr("FAILED_PRECONDITION: what-if " + name + "=2x: cluster 'bare' does not state cluster."));
  }
}

Cluster TestCluster() {
  return Parsed(
      "name: 'test' nodes: 4 devices_per_node: 1 nics_per_node: 1 inter_node { bytes_per_second: 1e9 latency_seconds: "
      "1e-7 } device { memory_bytes: 1000000 memory_bytes_per_second: 1e12 peaks { dtype: BF16 flops_per_second: 1e12 "
      "} "
      "}");
}

Program TestProgram() {
  Program program = GPipeProgram(4, 8, 1000);
  program.mutable_precision()->set_compute(BF16);
  for (Segment& segment : *program.mutable_segments()) {
    for (Step& step : *segment.mutable_steps()) {
      step.mutable_work()->set_flops(1'000'000);
      step.mutable_work()->set_dtype(BF16);
    }
  }
  return program;
}

TEST(AddWhatIfs, AddsChangesOneByOneAndTogether) {
  const Program program = TestProgram();
  const SimulateOptions options = {.cost = "roofline"};
  auto simulation = Simulate(program, TestCluster(), options);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  SimulationReport& report = simulation->report;
  const std::vector<WhatIfChanges> what_if = {*ParseWhatIf("nic=2x,compute=2x"), *ParseWhatIf("latency=0.5x"),
                                              *ParseWhatIf("nic=2x")};
  const absl::Status status = AddWhatIfs(program, TestCluster(), options, what_if, &report);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<std::string> changes;
  for (const WhatIf& row : report.what_if()) {
    changes.push_back(row.change());
    EXPECT_GT(row.iteration_seconds(), 0);
    EXPECT_GT(row.gain(), 0) << row.change();
    EXPECT_DOUBLE_EQ(row.gain(), report.iteration_seconds() / row.iteration_seconds() - 1);
    // The gain in the row equals a simulation of the changed cluster.
    const auto alone = Simulate(program, *ChangedCluster(TestCluster(), *ParseWhatIf(row.change())), options);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(alone->report.iteration_seconds(), row.iteration_seconds());
  }
  EXPECT_THAT(changes, ElementsAre("nic=2x", "compute=2x", "nic=2x,compute=2x", "latency=0.5x"));
  // Both changes together gain more than each alone, and at most a factor of two.
  EXPECT_GT(report.what_if(2).gain(), report.what_if(0).gain());
  EXPECT_GT(report.what_if(2).gain(), report.what_if(1).gain());
  EXPECT_LE(report.what_if(2).gain(), 1);
}

TEST(AddWhatIfs, RefusesWhatTheModelsDoNotAskFor) {
  const Program program = TestProgram();
  SimulationReport report;
  absl::Status status = AddWhatIfs(program, TestCluster(), {.cost = "unit"}, {*ParseWhatIf("compute=2x")}, &report);
  EXPECT_THAT(std::string(status.message()), HasSubstr("compute=2x changes nothing: with --cost=unit"));
  status =
      AddWhatIfs(program, TestCluster(), {.cost = "roofline", .network = "none"}, {*ParseWhatIf("nic=2x")}, &report);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nic=2x changes nothing: with --network=none"));
  status = AddWhatIfs(program, TestCluster(), {.cost = "roofline", .network = "nccl"}, {*ParseWhatIf("latency=0.5x")},
                      &report);
  EXPECT_THAT(std::string(status.message()), HasSubstr("latency=0.5x: the network nccl takes the latencies"));
  status = AddWhatIfs(program, TestCluster(), {.cost = "roofline", .network = "agnostic"}, {*ParseWhatIf("intra=2x")},
                      &report);
  EXPECT_THAT(std::string(status.message()), HasSubstr("intra=2x changes nothing: with cluster.nodes = 4"));
  EXPECT_EQ(report.what_if_size(), 0);
}

}  // namespace
}  // namespace weft::sim
