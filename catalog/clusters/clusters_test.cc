// Every cluster of the catalog parses, is valid, and has all that the simulator asks for.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/io.h"
#include "proto/validate.h"

namespace weft {
namespace {

TEST(Clusters, ParseAndValidate) {
  const std::string root = std::string(std::getenv("TEST_SRCDIR")) + "/" + std::getenv("TEST_WORKSPACE");
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(root + "/catalog/clusters")) {
    if (file.path().extension() != ".textproto") continue;
    SCOPED_TRACE(file.path().filename().string());
    ++files;
    const auto cluster = ReadMessage<Cluster>(file.path().string());
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    const absl::Status valid = Validate(*cluster);
    EXPECT_TRUE(valid.ok()) << valid;
    EXPECT_EQ(cluster->name(), file.path().stem().string());
    EXPECT_FALSE(cluster->source().empty());
    std::set<DType> peaks;
    for (const Peak& peak : cluster->device().peaks()) peaks.insert(peak.dtype());
    // Older devices have no bf16.
    peaks.insert(BF16);
    EXPECT_EQ(peaks, (std::set<DType>{FP64, FP32, BF16, FP16}));
    // The first row of a table is where sizes begin.
    EXPECT_EQ(cluster->device().matmul_efficiency(0).from(), 0);
    EXPECT_EQ(cluster->device().memory_efficiency(0).from(), 0);
    EXPECT_GT(cluster->host().bytes_per_second(), 0);
    EXPECT_GT(cluster->inter_node().bytes_per_second(), 0);
    // A link inside a node is faster than one between nodes.
    if (cluster->devices_per_node() > 1) {
      EXPECT_GT(cluster->intra_node().bytes_per_second(), cluster->inter_node().bytes_per_second());
    }
  }
  EXPECT_GE(files, 14);
}

}  // namespace
}  // namespace weft
