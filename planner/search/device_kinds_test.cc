#include "planner/search/device_kinds.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two nodes: one of A100 with 40 GB, one of H100.
Cluster TwoNodes() {
  Cluster cluster = *LoadCluster("dgx-a100-40g");
  cluster.set_nodes(2);
  OtherDevices* other = cluster.add_other_devices();
  other->add_nodes(1);
  *other->mutable_device() = LoadCluster("dgx-h100")->device();
  return cluster;
}

TEST(DeviceKinds, KnowsTheCapacityOfEachPipeRank) {
  const Cluster cluster = TwoNodes();
  const auto kinds = DeviceKinds::Make(16, cluster);
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  EXPECT_FALSE((*kinds)->all_are_alike());
  ASSERT_EQ((*kinds)->kinds().size(), 2);
  const int64_t a100 = (*kinds)->kinds()[0].usable_bytes, h100 = (*kinds)->kinds()[1].usable_bytes;
  EXPECT_EQ((*kinds)->most_bytes(), h100);
  const MeshKinds& stages = (*kinds)->Of(Parse<Mesh>("axes { name: 'data' size: 4 } axes { name: 'pipe' size: 4 }"));
  EXPECT_THAT(stages.pipelines, ElementsAre(ElementsAre(0, 0, 1, 1)));
  EXPECT_THAT(stages.capacities, ElementsAre(a100, a100, h100, h100));
  const MeshKinds& replicas = (*kinds)->Of(Parse<Mesh>("axes { name: 'pipe' size: 4 } axes { name: 'data' size: 4 }"));
  EXPECT_EQ(replicas.pipelines.size(), 2);
  EXPECT_THAT(replicas.capacities, ElementsAre(a100, a100, a100, a100));
  const auto one = DeviceKinds::Make(8, cluster);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE((*one)->all_are_alike());
  const CapacityRange range = CapacitiesOfDevices(cluster, 16, 0);
  EXPECT_EQ(range.least, a100);
  EXPECT_EQ(range.most, h100);
}

TEST(DeviceKinds, ALimitHoldsForEveryDevice) {
  const auto usable = [](int64_t limit) {
    const Cluster limited = WithMemoryLimit(TwoNodes(), limit);
    const auto kinds = DeviceKinds::Make(16, limited);
    EXPECT_TRUE(kinds.ok()) << kinds.status();
    return std::make_pair((*kinds)->kinds()[0].usable_bytes, (*kinds)->kinds()[1].usable_bytes);
  };
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(usable(60 * kGiB), std::make_pair(usable(0).first, 60 * kGiB));
  EXPECT_EQ(usable(20 * kGiB), std::make_pair(20 * kGiB, 20 * kGiB));
}

TEST(DeviceKinds, RefusesManyKinds) {
  Cluster cluster = *LoadCluster("dgx-a100-80g");
  for (int i = 0; i < kMaxKinds; ++i) {
    OtherDevices* other = cluster.add_other_devices();
    other->add_nodes(i);
    other->set_speed(0.5 + 0.01 * i);
  }
  EXPECT_TRUE(DeviceKinds::Make(8 * kMaxKinds, cluster).ok());
  EXPECT_THAT(std::string(DeviceKinds::Make(8 * kMaxKinds + 8, cluster).status().message()),
              HasSubstr("the 72 devices have 9 different kinds and speeds; weft plan searches at most 8"));
}

}  // namespace
}  // namespace weft::planner
