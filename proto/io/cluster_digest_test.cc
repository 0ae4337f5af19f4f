#include "proto/io/cluster_digest.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(ClusterDigest, IsOfTheFiguresAndTheName) {
  Cluster cluster;
  // FNV-1a of no bytes is its offset basis.
  EXPECT_EQ(ClusterDigest(cluster), 0xcbf29ce484222325u);
  cluster.set_name("a");
  const uint64_t a = ClusterDigest(cluster);
  EXPECT_EQ(a, ClusterDigest(Cluster(cluster)));
  cluster.set_name("b");
  const uint64_t b = ClusterDigest(cluster);
  cluster.set_nodes(2);
  EXPECT_NE(a, b);
  EXPECT_NE(b, ClusterDigest(cluster));
}

}  // namespace
}  // namespace weft
