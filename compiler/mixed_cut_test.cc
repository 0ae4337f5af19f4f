#include "compiler/mixed_cut.h"

#include <string>

#include "compiler/compile_testing.h"
#include "compiler/lower_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kStagesOnNodes[] = "mesh { axes { name: 'data' size: 8 } axes { name: 'pipe' size: 2 } }";
constexpr char kReplicasOnNodes[] = "mesh { axes { name: 'pipe' size: 2 } axes { name: 'data' size: 8 } }";

PlanInputs InputsOf(const Cluster& cluster, const std::string& plan, int layers = 30) {
  const auto inputs = ResolveInputs(
      TinyGpt2(layers), Parse<Recipe>("global_batch_sequences: 32 microbatch_sequences: 1 sequence_length: 16"),
      Parse<Plan>(plan), cluster, /*notes=*/nullptr);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  return *inputs;
}

// The cut of the compiled program, which must be that of MeasureAndCutOverKinds if the cut depends on the kinds.
std::vector<int32_t> CutOf(const PlanInputs& inputs) {
  const auto cost = CostsOf(inputs);
  EXPECT_TRUE(cost.ok()) << cost.status();
  std::vector<int32_t> layers;
  const auto program = LowerPlan(inputs, *cost, /*evaluation=*/false, &layers, /*notes=*/nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  const auto cut = MeasureAndCutOverKinds(inputs);
  EXPECT_TRUE(cut.ok()) << cut.status();
  if (!cut->empty()) {
    EXPECT_EQ(*cut, layers);
  }
  return layers;
}

Cluster SecondNodeAt(double speed) {
  Cluster cluster = TinyCluster("other_devices { nodes: 1 }");
  cluster.mutable_other_devices(0)->set_speed(speed);
  return cluster;
}

TEST(MixedCut, ADeviceTwiceAsFastGetsTwiceTheLayers) {
  const std::vector<int32_t> alike = CutOf(InputsOf(TinyCluster(), kStagesOnNodes));
  EXPECT_NEAR(alike[0], 16, 1);
  for (const double speed : {0.5, 2.0, 3.0}) {
    const std::vector<int32_t> cut = CutOf(InputsOf(SecondNodeAt(speed), kStagesOnNodes));
    EXPECT_NEAR(cut[1] / static_cast<double>(cut[0]), speed, 0.3) << speed;
  }
  // Another device with twice the figures is as good as twice the speed.
  Cluster twice = TinyCluster("other_devices { nodes: 1 }");
  Device* fast = twice.mutable_other_devices(0)->mutable_device();
  *fast = twice.device();
  fast->set_memory_bytes_per_second(2 * fast->memory_bytes_per_second());
  for (Peak& peak : *fast->mutable_peaks()) peak.set_flops_per_second(2 * peak.flops_per_second());
  EXPECT_EQ(CutOf(InputsOf(twice, kStagesOnNodes)), CutOf(InputsOf(SecondNodeAt(2), kStagesOnNodes)));
}

TEST(MixedCut, TheSlowestReplicaOfAStageDecides) {
  const std::vector<int32_t> alike = CutOf(InputsOf(TinyCluster(), kReplicasOnNodes));
  for (const double speed : {0.5, 2.0}) {
    EXPECT_EQ(CutOf(InputsOf(SecondNodeAt(speed), kReplicasOnNodes)), alike) << speed;
  }
}

TEST(MixedCut, RanksOfSeveralStages) {
  const Cluster cluster = SecondNodeAt(3);
  const auto layers_of = [&](const std::string& schedule, const std::vector<size_t>& stages) {
    const std::vector<int32_t> cut = CutOf(InputsOf(cluster, kStagesOnNodes + schedule));
    int32_t sum = 0;
    for (const size_t stage : stages) sum += cut[stage];
    return sum;
  };
  // Stages 1 and 3 are on the fast node; with the V of zb-v, stages 1 and 2.
  EXPECT_NEAR(layers_of("schedule { name: 'interleaved' virtual_stages: 2 }", {1, 3}), 24, 1);
  EXPECT_NEAR(layers_of("schedule { name: 'zb-v' }", {1, 2}), 24, 1);
  // Both nodes run every stage of chimera.
  EXPECT_NEAR(layers_of("schedule { name: 'chimera' }", {1}), 16, 1);
}

TEST(MixedCut, EqualKindsMakeTheSameProgram) {
  Cluster same = TinyCluster("other_devices { nodes: 1 }");
  *same.mutable_other_devices(0)->mutable_device() = same.device();
  same.mutable_other_devices(0)->mutable_device()->set_name("the same");
  std::vector<std::string> programs;
  for (const Cluster& cluster : {TinyCluster(), same}) {
    const PlanInputs inputs = InputsOf(cluster, kStagesOnNodes);
    EXPECT_THAT(*MeasureAndCutOverKinds(inputs), IsEmpty());
    auto program = LowerPlan(inputs, *CostsOf(inputs), /*evaluation=*/true, nullptr, nullptr);
    ASSERT_TRUE(program.ok()) << program.status();
    program->clear_cluster_digest();
    program->mutable_evaluation()->clear_cluster_digest();
    programs.push_back(program->SerializeAsString());
  }
  EXPECT_EQ(programs[0], programs[1]);
}

// All ranks on devices of one kind are cut as on a cluster of this kind.
TEST(MixedCut, OneOtherKindIsCutAsItsOwnCluster) {
  Cluster other = TinyCluster("other_devices {}");
  Device* device = other.mutable_other_devices(0)->mutable_device();
  *device = other.device();
  device->set_memory_bytes_per_second(1e10);
  // Too little for the states, which matters only if there are several kinds.
  device->set_memory_bytes(2000);
  Cluster own = TinyCluster();
  *own.mutable_device() = *device;
  EXPECT_EQ(CutOf(InputsOf(other, kStagesOnNodes)), CutOf(InputsOf(own, kStagesOnNodes)));
}

TEST(MixedCut, AStageHoldsItsStatesIfItCan) {
  const PlanInputs unlimited = InputsOf(SecondNodeAt(3), kStagesOnNodes);
  const std::vector<int32_t> fastest = CutOf(unlimited);
  ASSERT_GT(fastest[1], 20);
  // A block has 12 * 16^2 weights and 13 * 16 norms and biases; a state takes 4 + 4 + 8 bytes in FP32.
  const int64_t bytes_of_block = 16 * (12 * 16 * 16 + 13 * 16);
  const auto with_memory = [&](int64_t blocks, const std::string& plan) {
    Cluster cluster = SecondNodeAt(3);
    Device* device = cluster.mutable_other_devices(0)->mutable_device();
    *device = cluster.device();
    // The head shares its weights with the embedding: 100 x 16 of them, and the last norm has 32.
    device->set_memory_bytes(device->reserved_bytes() + 16 * (100 * 16 + 32) + blocks * bytes_of_block);
    return CutOf(InputsOf(cluster, plan));
  };
  const std::string plan = std::string(kStagesOnNodes) + "precision { params: FP32 master: FP32 compute: FP32 }";
  EXPECT_THAT(with_memory(15, plan), ElementsAre(32 - 16, 16));
  EXPECT_THAT(with_memory(10, plan), ElementsAre(32 - 11, 11));
  // ZeRO leaves an eighth of the optimizer states, half of all states.
  EXPECT_EQ(with_memory(15, plan + "zero { stage: 1 }"), fastest);
  // No cut fits, so the fastest one wins.
  Cluster tiny = SecondNodeAt(3);
  tiny.mutable_device()->set_memory_bytes(2000);
  EXPECT_EQ(CutOf(InputsOf(tiny, plan)), fastest);
}

TEST(MixedCut, APlanMayStateItsCut) {
  const std::string plan = std::string(kStagesOnNodes) + "partition { layers_per_stage: [20, 12] }";
  EXPECT_THAT(CutOf(InputsOf(SecondNodeAt(3), plan)), ElementsAre(20, 12));
}

}  // namespace
}  // namespace weft
