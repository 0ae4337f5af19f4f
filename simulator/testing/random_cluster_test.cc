#include "simulator/testing/random_cluster.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "proto/validate/validate.h"

namespace weft::sim {
namespace {

TEST(RandomCluster, IsValidAndTheSameForASeed) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    for (const Wear wear : {Wear::kSymmetric, Wear::kNearly, Wear::kDegraded}) {
      const Cluster cluster = RandomCluster(seed, 1 + static_cast<int64_t>(seed % 9), wear, seed % 2 == 0);
      EXPECT_TRUE(Validate(cluster).ok()) << "seed " << seed << ": " << Validate(cluster);
      const Cluster again = RandomCluster(seed, 1 + static_cast<int64_t>(seed % 9), wear, seed % 2 == 0);
      EXPECT_EQ(cluster.SerializeAsString(), again.SerializeAsString());
      const bool worn =
          cluster.has_placement() || cluster.other_devices_size() > 0 || cluster.other_interfaces_size() > 0;
      EXPECT_EQ(worn, wear != Wear::kSymmetric) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weft::sim
