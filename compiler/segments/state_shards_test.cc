#include "compiler/segments/state_shards.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Plan PlanOf(int64_t data, int32_t stage, int64_t group) {
  Plan plan;
  MeshAxis& axis = *plan.mutable_mesh()->add_axes();
  axis.set_name("data");
  axis.set_size(data);
  plan.mutable_zero()->set_stage(stage);
  plan.mutable_zero()->set_group(group);
  return plan;
}

TEST(StateShards, AllReplicasShareACopyUnlessAGroupIsGiven) {
  for (int64_t group : {0, 8}) {
    const StateShards shards = StateShardsOf(PlanOf(8, 2, group));
    EXPECT_EQ(shards.stage, 2);
    EXPECT_EQ(shards.members, 8);
    EXPECT_EQ(shards.block, 0);
  }
  const StateShards shards = StateShardsOf(PlanOf(8, 3, 4));
  EXPECT_EQ(shards.members, 4);
  EXPECT_EQ(shards.block, 4);
}

TEST(StateShards, GroupsOfOneAreNone) {
  for (const Plan& plan : {PlanOf(1, 3, 0), PlanOf(8, 1, 1), PlanOf(8, 0, 0), Plan()}) {
    const StateShards shards = StateShardsOf(plan);
    EXPECT_EQ(shards.stage, 0);
    EXPECT_EQ(shards.members, 1);
    EXPECT_EQ(shards.block, 0);
  }
}

TEST(StateShards, StepsOfALayerAreFoundByTheirName) {
  for (const int32_t layer : {0, 7, 123}) {
    EXPECT_EQ(LayerOfNamedStep(NameOfLayerSteps(layer)), layer);
    EXPECT_EQ(LayerOfNamedStep(NameOfLayerSteps(layer) + ".again"), layer);
  }
  for (const char* other : {"", "layer", "layer1", "layer.zero", "layer1.norm", "layers.1.zero", "h.1.zero"}) {
    EXPECT_EQ(LayerOfNamedStep(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace weft
