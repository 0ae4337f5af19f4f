#include "compiler/segments/collective_cost.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

// Four devices per node, 10 GB/s within a node, 1 GB/s between nodes.
Cluster SmallCluster() {
  Cluster cluster;
  cluster.set_nodes(4);
  cluster.set_devices_per_node(4);
  cluster.set_nics_per_node(1);
  cluster.mutable_intra_node()->set_bytes_per_second(10e9);
  cluster.mutable_inter_node()->set_bytes_per_second(1e9);
  return cluster;
}

Mesh MeshOf(std::initializer_list<std::pair<const char*, int64_t>> axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    MeshAxis& axis = *mesh.add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  return mesh;
}

Step Collective(Kernel kernel, const char* axis, int64_t bytes) {
  Step step;
  step.set_kernel(kernel);
  step.set_stream(COLLECTIVE);
  step.mutable_collective()->mutable_group()->add_axes()->set_axis(axis);
  step.mutable_collective()->set_algorithm("ring");
  step.mutable_work()->set_bytes(bytes);
  step.mutable_work()->set_dtype(FP32);
  return step;
}

int64_t CostOf(const StepCost& cost, const Step& step) {
  const absl::StatusOr<int64_t> ps = cost({}, step, FORWARD);
  EXPECT_TRUE(ps.ok()) << ps.status();
  return ps.value_or(-1);
}

TEST(CollectiveCost, RingsInsideANodeAndBetweenNodes) {
  const Mesh mesh = MeshOf({{"x", 4}, {"z", 4}});
  const Cluster cluster = SmallCluster();
  const StepCost cost =
      WithCollectives([](const Segment&, const Step&, ActionKind) { return int64_t{7}; }, mesh, cluster);
  EXPECT_EQ(CostOf(cost, Step()), 7);
  // An all-reduce of 4 MB: Work counts 8 MB in and out. 2 * 3/4 * 4 MB at 10 GB/s take 600 us.
  EXPECT_EQ(CostOf(cost, Collective(GROUP_ALL_REDUCE, "x", 8'000'000)), 600'000'000);
  // An all-gather or reduce-scatter takes half of that time. Work counts the part of 1 MB and the whole of 4 MB.
  EXPECT_EQ(CostOf(cost, Collective(GROUP_ALL_GATHER, "x", 5'000'000)), 300'000'000);
  EXPECT_EQ(CostOf(cost, Collective(GROUP_REDUCE_SCATTER, "x", 5'000'000)), 300'000'000);
  // Four groups share a node's NIC: 3/4 * 4 MB at 0.25 GB/s.
  EXPECT_EQ(CostOf(cost, Collective(GROUP_ALL_GATHER, "z", 5'000'000)), 12'000'000'000);
}

TEST(CollectiveCost, GroupsOfBlocksAndLists) {
  const Mesh mesh = MeshOf({{"data", 8}});
  const Cluster cluster = SmallCluster();
  const StepCost cost =
      WithCollectives([](const Segment&, const Step&, ActionKind) { return int64_t{0}; }, mesh, cluster);
  Step block = Collective(GROUP_ALL_GATHER, "data", 3'000'000);
  block.mutable_collective()->mutable_group()->mutable_axes(0)->set_block(2);
  EXPECT_EQ(CostOf(cost, block), 100'000'000);  // Half of 2 MB at 10 GB/s.
  Step listed = Collective(GROUP_ALL_GATHER, "data", 3'000'000);
  for (int64_t index : {2, 3}) listed.mutable_collective()->mutable_group()->mutable_axes(0)->add_indices(index);
  EXPECT_EQ(CostOf(cost, listed), 100'000'000);
}

TEST(CollectiveCost, ErrorsOfTheNetwork) {
  const Mesh mesh = MeshOf({{"x", 4}});
  Cluster cluster = SmallCluster();
  cluster.mutable_intra_node()->clear_bytes_per_second();
  const StepCost cost =
      WithCollectives([](const Segment&, const Step&, ActionKind) { return int64_t{0}; }, mesh, cluster);
  EXPECT_EQ(cost({}, Collective(GROUP_ALL_REDUCE, "x", 80), FORWARD).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Step unknown = Collective(GROUP_ALL_REDUCE, "x", 80);
  unknown.mutable_collective()->set_algorithm("rind");
  EXPECT_EQ(cost({}, unknown, FORWARD).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weft
