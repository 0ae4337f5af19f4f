#include "compiler/rank_kinds.h"

#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

constexpr char kFastNode[] = R"(
  other_devices { nodes: 1 device { name: "fast" memory_bytes: 2000 reserved_bytes: 500 } }
  other_devices { nodes: 1 devices: 7 speed: 0.5 })";

Mesh MeshOf(const std::string& axes) { return Parse<Mesh>(axes); }

TEST(KindsOfRanks, FiguresAndSpeedsMakeAKind) {
  const auto kinds = KindsOfRanks(16, TinyCluster(kFastNode));
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  ASSERT_EQ(kinds->kinds.size(), 3);
  EXPECT_EQ(kinds->kinds[0].device.name(), "d");
  EXPECT_EQ(kinds->kinds[0].usable_bytes, 1'000'000'000 - 1000);
  EXPECT_EQ(kinds->kinds[1].device.name(), "fast");
  EXPECT_EQ(kinds->kinds[1].usable_bytes, 1500);
  // The last row that names a device applies: it is of the first kind, at half speed.
  EXPECT_EQ(kinds->kinds[2].device.name(), "d");
  EXPECT_EQ(kinds->kinds[2].speed, 500'000);
  EXPECT_THAT(kinds->of_rank, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2));
  EXPECT_FALSE(kinds->AllAreLike(TinyCluster().device()));
  const auto first_node = KindsOfRanks(8, TinyCluster(kFastNode));
  ASSERT_TRUE(first_node.ok()) << first_node.status();
  EXPECT_TRUE(first_node->AllAreLike(TinyCluster().device()));
  EXPECT_FALSE(KindsOfRanks(17, TinyCluster(kFastNode)).ok());
}

TEST(KindsOfRanks, ANameMakesNoKind) {
  Cluster cluster = TinyCluster("other_devices { nodes: 1 }");
  *cluster.mutable_other_devices(0)->mutable_device() = cluster.device();
  cluster.mutable_other_devices(0)->mutable_device()->set_name("the same");
  const auto kinds = KindsOfRanks(16, cluster);
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  EXPECT_TRUE(kinds->AllAreLike(cluster.device()));
}

TEST(ClusterOfKind, HasThisKindAlone) {
  const Cluster cluster = TinyCluster(kFastNode);
  const auto kinds = KindsOfRanks(16, cluster);
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  for (const DeviceKind& kind : kinds->kinds) {
    const auto alike = KindsOfRanks(16, ClusterOfKind(cluster, kind));
    ASSERT_TRUE(alike.ok()) << alike.status();
    ASSERT_EQ(alike->kinds.size(), 1);
    EXPECT_EQ(alike->kinds[0].device.name(), kind.device.name());
    EXPECT_EQ(alike->kinds[0].speed, kind.speed);
  }
}

TEST(KindsOfPipelines, FollowTheOrderOfTheAxes) {
  const auto kinds = KindsOfRanks(16, TinyCluster(R"(other_devices { nodes: 1 speed: 2 })"));
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  // Pipe outermost: each stage is on one node.
  EXPECT_THAT(KindsOfPipelines(*kinds, MeshOf("axes { name: 'data' size: 8 } axes { name: 'pipe' size: 2 }")),
              ElementsAre(ElementsAre(0, 1)));
  // Replicas outermost: each pipeline is on one node.
  const auto pipelines =
      KindsOfPipelines(*kinds, MeshOf("axes { name: 'pipe' size: 2 } axes { name: 'data' size: 8 }"));
  EXPECT_THAT(pipelines, ElementsAre(ElementsAre(0, 0), ElementsAre(1, 1)));
  EXPECT_THAT(KindsOfStages(pipelines, {{0, 1}}), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
  EXPECT_THAT(KindsOfPipelines(*kinds, MeshOf("axes { name: 'data' size: 16 }")),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(KindsOfStages, OfALaneAndOfAWave) {
  const std::vector<std::vector<int32_t>> pipelines = {{0, 1}};
  EXPECT_THAT(KindsOfStages(pipelines, {{0, 1, 1, 0}}),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(1), ElementsAre(0)));
  // Chimera: both lanes run every stage.
  EXPECT_THAT(KindsOfStages(pipelines, {{0, 1}, {1, 0}}), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
}

TEST(RoomOfStages, IsAShareOfTheirRanks) {
  const RankKinds kinds{.kinds = {{{}, 0, 100}, {{}, 0, 60}}, .of_rank = {}};
  EXPECT_THAT(UsableOfPipeRanks(kinds, {{0, 1, 0}, {0, 0, 1}}), ElementsAre(100, 60, 60));
  EXPECT_THAT(RoomOfStages({100, 60}, {{0, 1, 1, 0}}), ElementsAre(50, 30, 30, 50));
  EXPECT_THAT(RoomOfStages({100, 60}, {{0, 1}, {1, 0}}), ElementsAre(30, 30));
}

}  // namespace
}  // namespace weft
