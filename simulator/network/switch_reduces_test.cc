#include "simulator/network/switch_reduces.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string Why(const Cluster& cluster, bool one_node) {
  const absl::Status status = CheckSwitchReduces(cluster, one_node);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(SwitchReduces, WhatIsMissingIsNamed) {
  Cluster cluster;
  EXPECT_THAT(Why(cluster, true), HasSubstr("cluster.node_links.switch_reduces = false must be true"));
  cluster.mutable_node_links()->set_switch_reduces(true);
  EXPECT_EQ(Why(cluster, true), "");
  EXPECT_THAT(Why(cluster, false), HasSubstr("over several nodes"));
  cluster.mutable_node_links()->set_devices_per_bridge(2);
  EXPECT_THAT(Why(cluster, true), HasSubstr("devices_per_bridge must be empty"));
  cluster.mutable_node_links()->clear_devices_per_bridge();
  cluster.mutable_node_links()->add_direct()->set_second(1);
  EXPECT_THAT(Why(cluster, true), HasSubstr("cluster.node_links.direct"));
}

}  // namespace
}  // namespace weft
