// Checks that every cluster of the catalog parses, is valid, and has all fields that the simulator needs.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/io/io.h"
#include "proto/validate/validate.h"

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
    // NVIDIA devices have both TF32 and bf16 from Ampere on. AMD devices got TF32 later than bf16.
    const int capability = cluster->device().compute_capability();
    if (capability > 0) {
      EXPECT_EQ(peaks.count(TF32), capability >= 80 ? 1u : 0u);
    }
    peaks.erase(TF32);
    // Devices older than Ampere may lack bf16, so add it before the comparison.
    peaks.insert(BF16);
    EXPECT_EQ(peaks, (std::set<DType>{FP64, FP32, BF16, FP16}));
    // The first row of an efficiency table starts at size 0.
    EXPECT_EQ(cluster->device().matmul_efficiency(0).from(), 0);
    EXPECT_EQ(cluster->device().memory_efficiency(0).from(), 0);
    EXPECT_GT(cluster->host().bytes_per_second(), 0);
    EXPECT_NE(cluster->host().kind(), LINK_KIND_UNSPECIFIED);
    if (cluster->nodes() > 1) {
      EXPECT_EQ(cluster->inter_node().kind(), NETWORK);
      EXPECT_GT(cluster->inter_node().bytes_per_second(), 0);
    }
    // A link inside a node is faster than one between nodes.
    if (cluster->devices_per_node() > 1) {
      EXPECT_TRUE(cluster->intra_node().kind() == NVLINK || cluster->intra_node().kind() == PCIE);
      EXPECT_GT(cluster->intra_node().bytes_per_second(), cluster->inter_node().bytes_per_second());
    }
    for (const DirectLink& direct : cluster->node_links().direct()) {
      EXPECT_GE(direct.link().bytes_per_second(), cluster->intra_node().bytes_per_second());
    }
    // NVIDIA devices have a compute capability. NVIDIA switches reduce in the network from Hopper on.
    const bool amd = cluster->device().name().rfind("MI", 0) == 0;
    EXPECT_EQ(cluster->device().compute_capability() > 0, !amd);
    if (cluster->node_links().switch_reduces()) {
      EXPECT_GE(cluster->device().compute_capability(), 90);
    }
    // A collective takes some multiprocessors and memory bandwidth, and leaves most of both to other kernels.
    const CommunicationLoad& load = cluster->device().communication_load();
    EXPECT_GT(load.multiprocessors(), 0);
    EXPECT_LE(4 * load.multiprocessors(), cluster->device().tiles().multiprocessors());
    EXPECT_GT(load.memory_bytes_per_second(), 0);
    EXPECT_LE(3 * load.memory_bytes_per_second(), cluster->device().memory_bytes_per_second());
    // A catalog file describes a machine, not a job on it.
    EXPECT_FALSE(cluster->has_placement());
    EXPECT_EQ(cluster->other_devices_size() + cluster->other_interfaces_size(), 0);
  }
  EXPECT_GE(files, 20);
}

}  // namespace
}  // namespace weft
