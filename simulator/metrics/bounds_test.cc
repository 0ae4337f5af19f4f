#include "simulator/metrics/bounds.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

Cluster Parsed(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster)) << text;
  return cluster;
}

// Two ranks, four microbatches. A forward computes 4e6 flops and moves 1e6 bytes; a backward computes 8e6 flops and
// moves 6e6 bytes.
Program TestProgram() {
  Program program = GPipeProgram(2, 4, 1000);
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      if (action.kind() != FORWARD && action.kind() != BACKWARD) continue;
      Work* work = program.mutable_segments(action.segment())->mutable_steps(0)->mutable_work();
      work->set_dtype(BF16);
      work->set_flops(action.kind() == FORWARD ? 4'000'000 : 8'000'000);
      work->set_bytes(action.kind() == FORWARD ? 1'000'000 : 6'000'000);
    }
  }
  return program;
}

LowerBounds Bounds(const Program& program, const Cluster& cluster, int64_t cost, const char* network = "analytic") {
  const auto view =
      BuildProgramView(program, [&](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{cost}; }, {});
  EXPECT_TRUE(view.ok()) << view.status();
  const auto placement = RankPlacement::Make(2, cluster);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return BoundsOf(*view, cluster, *placement, network);
}

constexpr char kCluster[] =
    "nodes: 2 devices_per_node: 1 nics_per_node: 2 intra_node { bytes_per_second: 1e9 } inter_node { bytes_per_second: "
    "3e9 } device { memory_bytes_per_second: 1e12 peaks { dtype: FP32 flops_per_second: 1e11 } peaks { dtype: BF16 "
    "flops_per_second: 1e12 } }";

TEST(Bounds, AreThoseOfTheRankWithMost) {
  const LowerBounds bounds = Bounds(TestProgram(), Parsed(kCluster), 20'000'000);
  // The flops, not the bytes, determine the bounds of the four forwards and the four backwards.
  EXPECT_DOUBLE_EQ(bounds.compute_seconds(), 4 * (4e-6 + 8e-6));
  EXPECT_DOUBLE_EQ(bounds.costed_seconds(), 8 * 20e-6);
  // Rank 0 sends four activations of 1000 bytes, rank 1 four gradients, over their own link and both interfaces.
  EXPECT_DOUBLE_EQ(bounds.communication_seconds(), 4000 / 7e9);
  EXPECT_EQ(Bounds(TestProgram(), Parsed(kCluster), 20'000'000, "none").communication_seconds(), 0);
}

TEST(Bounds, GoByMemoryWhereThatIsSlower) {
  Cluster cluster = Parsed(kCluster);
  cluster.mutable_device()->set_memory_bytes_per_second(5e11);
  EXPECT_DOUBLE_EQ(Bounds(TestProgram(), cluster, 20'000'000).compute_seconds(), 4 * (4e-6 + 12e-6));
}

TEST(Bounds, AreNeverAboveWhatStepsAreCosted) {
  const LowerBounds bounds = Bounds(TestProgram(), Parsed(kCluster), 5'000'000);
  EXPECT_DOUBLE_EQ(bounds.compute_seconds(), 4 * (4e-6 + 5e-6));
  EXPECT_DOUBLE_EQ(bounds.costed_seconds(), 8 * 5e-6);
}

TEST(Bounds, SlowDevicesAndOtherKindsCount) {
  Cluster cluster = Parsed(kCluster);
  OtherDevices* slow = cluster.add_other_devices();
  slow->add_nodes(1);
  slow->set_speed(0.5);
  EXPECT_DOUBLE_EQ(Bounds(TestProgram(), cluster, 50'000'000).compute_seconds(), 2 * 4 * (4e-6 + 8e-6));
}

// An all-reduce of 80,000 bytes over both ranks. In a ring, a rank sends half of them twice. With any algorithm, it
// sends at least half of them once.
TEST(Bounds, CollectivesSendWhatTheirAlgorithmDoesOrTheLeast) {
  Program program = TestProgram();
  for (Template& t : *program.mutable_templates()) {
    Buffer& buffer = *t.add_buffers();
    buffer.set_class_(GRADIENT);
    buffer.set_dtype(FP32);
    buffer.set_bytes(80'000);
    buffer.set_persistent(true);
    Action& action = *t.add_body();
    action.set_id(100);
    action.set_kind(ALL_REDUCE);
    action.set_algorithm("ring");
    action.set_purpose(GRADIENT_SYNC);
    action.mutable_group()->add_axes()->set_axis("pipe");
    action.add_sources(t.buffers_size() - 1);
    action.add_destinations(t.buffers_size() - 1);
  }
  EXPECT_DOUBLE_EQ(Bounds(program, Parsed(kCluster), 20'000'000).communication_seconds(), 80'000 / 7e9);
  EXPECT_DOUBLE_EQ(Bounds(program, Parsed(kCluster), 20'000'000, "nccl").communication_seconds(), 40'000 / 7e9);
}

TEST(Bounds, WithoutFiguresNothingIsBounded) {
  const LowerBounds bounds = Bounds(TestProgram(), Parsed("nodes: 1 devices_per_node: 2"), 7);
  EXPECT_EQ(bounds.compute_seconds(), 0);
  EXPECT_DOUBLE_EQ(bounds.costed_seconds(), 8 * 7e-12);
  EXPECT_EQ(bounds.communication_seconds(), 0);
}

}  // namespace
}  // namespace weft::sim
