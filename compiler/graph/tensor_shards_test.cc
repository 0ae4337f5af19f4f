#include "compiler/graph/tensor_shards.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Writes a shard as text, for example "x 1*3, y 0 | z, data/2": first the cut dimensions with their runs, then the
// ranges with their blocks.
std::string Text(const Shard& shard) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() || text.back() == ' ' ? "" : ", ") + part; };
  for (const DimensionCut& cut : shard.dimensions()) {
    add(cut.axis() + " " + std::to_string(cut.dimension()) + (cut.runs() > 0 ? "*" + std::to_string(cut.runs()) : ""));
  }
  if (shard.ranges_size() > 0) text += text.empty() ? "| " : " | ";
  for (const RangeCut& cut : shard.ranges()) {
    add(cut.axis() + (cut.block() > 0 ? "/" + std::to_string(cut.block()) : ""));
  }
  return text;
}

// Describes weft.tensor ops with these types and attributes.
SegmentSet Describe(const std::vector<std::string>& tensors) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    text +=
        "weft.tensor @t" + std::to_string(i) + " index " + std::to_string(i) + " shape [4, 12] : " + tensors[i] + "\n";
  }
  SegmentSet set;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  if (module) DescribeShards(*module, &set);
  return set;
}

TEST(TensorShards, UncutTensorsAreWhole) {
  const SegmentSet set = Describe({"tensor<4x12xf32>", "tensor<4x12xbf16> {uses = 2 : i32}"});
  ASSERT_EQ(set.shards.size(), 2u);
  for (const TensorShards& shards : set.shards) {
    for (const Shard* shard : {&shards.param, &shards.grad, &shards.state}) EXPECT_EQ(Text(*shard), "");
    EXPECT_THAT(shards.sync_axes, ElementsAre("data"));
  }
  EXPECT_THAT(set.norm_axes, IsEmpty());
}

// All shards of a tensor have the same cuts of dimensions. Their ranges may differ.
TEST(TensorShards, DimensionsInTheirOrderAndRangesAsGiven) {
  const SegmentSet set = Describe({
      "tensor<2x6xf32> {padded = array<i64: 4, 12>, cuts = {x = array<i64: 1, 3>, y = array<i64: 0, 1>}}",
      "tensor<6xf32> {padded = array<i64: 4, 12>, cuts = {x = array<i64: 1, 3>, y = array<i64: 0, 1>}, ranges = "
      "[\"z\"], "
      "grad_ranges = [\"z\"], state_ranges = [\"z\", \"data\"], partial = [\"z\"]}",
  });
  ASSERT_EQ(set.shards.size(), 2u);
  EXPECT_EQ(Text(set.shards[0].param), "y 0, x 1*3");
  EXPECT_EQ(Text(set.shards[0].state), "y 0, x 1*3");
  EXPECT_EQ(Text(set.shards[1].param), "y 0, x 1*3 | z");
  EXPECT_EQ(Text(set.shards[1].grad), "y 0, x 1*3 | z");
  EXPECT_EQ(Text(set.shards[1].state), "y 0, x 1*3 | z, data");
  // The norm of the second tensor is computed from the optimizer's part.
  EXPECT_THAT(set.norm_axes, ElementsAre("data", "x", "y", "z"));
}

// If backwards scatter gradients over all replicas, no sum over data remains. If they scatter within groups, the sum
// over groups remains. The sums over axes along which gradients stay partial remain too.
TEST(TensorShards, SumsThatBackwardsLeaveOpen) {
  const SegmentSet set = Describe({
      "tensor<4x12xf32> {partial = [\"z\", \"x\"]}",
      "tensor<4x12xf32> {grad_ranges = [\"data\"], grad_type = tensor<24xf32>, state_ranges = [\"data\"], "
      "state_type = tensor<24xf32>, partial = [\"z\"]}",
      "tensor<4x12xf32> {grad_ranges = [\"data\"], grad_type = tensor<24xf32>, state_ranges = [\"data\"], "
      "state_type = tensor<24xf32>, data_block = 2 : i64}",
      "tensor<4x12xf32> {state_ranges = [\"data\"], state_type = tensor<24xf32>, data_block = 2 : i64}",
  });
  ASSERT_EQ(set.shards.size(), 4u);
  EXPECT_THAT(set.shards[0].sync_axes, ElementsAre("data", "z", "x"));
  EXPECT_THAT(set.shards[1].sync_axes, ElementsAre("z"));
  EXPECT_THAT(set.shards[2].sync_axes, ElementsAre(kOverGroups));
  EXPECT_EQ(Text(set.shards[2].grad), "| data/2");
  // Only the optimizer's part is cut; the backward produces whole gradients.
  EXPECT_THAT(set.shards[3].sync_axes, ElementsAre("data"));
  EXPECT_EQ(Text(set.shards[3].grad), "");
  EXPECT_EQ(Text(set.shards[3].state), "| data/2");
  EXPECT_THAT(set.norm_axes, ElementsAre("data"));
}

TEST(TensorShards, OptionsOfThePasses) {
  ir::TensorParallel sizes;
  EXPECT_FALSE(IsSharded(sizes));
  // Sequence parallelism alone cuts nothing.
  sizes.sequence_parallel = true;
  EXPECT_FALSE(IsSharded(sizes));
  for (int64_t ir::TensorParallel::* axis : {&ir::TensorParallel::x, &ir::TensorParallel::y, &ir::TensorParallel::z}) {
    ir::TensorParallel one;
    one.*axis = 2;
    EXPECT_TRUE(IsSharded(one));
  }
  sizes.x = 2;
  sizes.y = 3;
  sizes.z = 5;
  sizes.algorithm = "tree";
  const ShardOptions shard = OptionsOfShard(sizes, 128);
  EXPECT_EQ(shard.x, 2);
  EXPECT_EQ(shard.y, 3);
  EXPECT_EQ(shard.z, 5);
  EXPECT_TRUE(shard.sequenceParallel);
  EXPECT_EQ(shard.collective, "tree");
  EXPECT_EQ(shard.sequence, 128);
  const StateShards zero = {.stage = 3, .members = 4, .block = 4, .kept_layers = {1, 5}};
  const ShardStatesOptions states = OptionsOfShardStates(zero, "ring");
  EXPECT_EQ(states.stage, 3);
  EXPECT_EQ(states.members, 4);
  EXPECT_EQ(states.block, 4);
  EXPECT_EQ(states.collective, "ring");
  EXPECT_THAT(states.keptLayers, ElementsAre(1, 5));
}

}  // namespace
}  // namespace weft
