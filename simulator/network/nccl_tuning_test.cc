// Compares the model with NCCL's known choices and bandwidths, and checks properties that every model must have.
#include "simulator/network/nccl_tuning.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

constexpr CollectiveKind kAllReduce = CollectiveKind::kAllReduce;
constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;

NcclGroup A100(int64_t nodes, int64_t per_node = 8) {
  return {.ranks = nodes * per_node,
          .nodes = nodes,
          .compute_capability = 80,
          .nvlink = true,
          .inside_bytes_per_second = 240e9,
          .outside_bytes_per_second = 22.5e9 * static_cast<double>(per_node)};
}

NcclGroup H100(int64_t nodes, bool switch_reduces) {
  return {.ranks = nodes * 8,
          .nodes = nodes,
          .compute_capability = 90,
          .nvlink = true,
          .switch_reduces = switch_reduces,
          .inside_bytes_per_second = 370.8e9,
          .outside_bytes_per_second = 360e9};
}

std::string Choice(double bytes, const NcclGroup& group, CollectiveKind kind = kAllReduce) {
  const auto [algorithm, protocol] = NcclChoice(kind, bytes, group);
  return std::string(NcclAlgorithmName(algorithm)) + " " + std::string(NcclProtocolName(protocol));
}

double Seconds(double bytes, const NcclGroup& group, CollectiveKind kind = kAllReduce) {
  const auto [algorithm, protocol] = NcclChoice(kind, bytes, group);
  return *NcclSeconds(algorithm, protocol, kind, bytes, group);
}

// Bandwidth in GB/s as nccl-tests defines its "bus bandwidth".
double BusBandwidth(double bytes, const NcclGroup& group, CollectiveKind kind = kAllReduce) {
  const double n = static_cast<double>(group.ranks);
  return bytes / Seconds(bytes, group, kind) * (kind == kAllReduce ? 2 : 1) * (n - 1) / n * 1e-9;
}

TEST(Nccl, LatencyByHand) {
  // One node of 8: base + 14 hops of LL; 1 KiB at min(240 / 2, 87.7) x 8 / 14.
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kRing, NcclProtocol::kLL, kAllReduce, 1024, A100(1)),
              (6.6 + 14 * 0.6) * 1e-6 + 1024 / (87.7e9 * 8 / 14), 1e-12);
  // Two nodes, Simple: 30 steps; 2 of them cross. Posting takes 3 us, less than a hop. Beyond 64 bytes for each of 9
  // channels and 16 ranks the latency counts 1.4 times.
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kRing, NcclProtocol::kSimple, kAllReduce, 9000, A100(2)),
              (8.4 + 28 * 3.4 + 2 * 14) * 1e-6 + 9000 / (180e9 * 16 / 30), 1e-12);
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kRing, NcclProtocol::kSimple, kAllReduce, 9300, A100(2)),
              1.4 * (8.4 + 28 * 3.4 + 2 * 14) * 1e-6 + 9300 / (180e9 * 16 / 30), 1e-12);
  // 16 nodes: 2 (7 hops inside + 4 outside). For 32 bytes the only correction is the factor 0.9 of Simple.
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kTree, NcclProtocol::kSimple, kAllReduce, 32, A100(16)),
              (8.4 + 2 * (7 * 4.0 + 4 * 14)) * 1e-6 + 32 / (9 * 17.8e9 * 0.5 * 0.9), 1e-12);
}

TEST(Nccl, ReachesWhatIsMeasured) {
  // nccl-tests measures 230 to 250 GB/s on a DGX A100.
  EXPECT_GT(BusBandwidth(kGiB, A100(1)), 230);
  EXPECT_LT(BusBandwidth(8 * kGiB, A100(1)), 250);
  EXPECT_EQ(Choice(kGiB, A100(1)), "Ring Simple");
  // A DGX H100 reaches 360 to 371 GB/s by rings, and 460 to 485 GB/s if the switch sums.
  EXPECT_GT(BusBandwidth(kGiB, H100(1, false)), 355);
  EXPECT_LT(BusBandwidth(8 * kGiB, H100(1, false)), 371);
  EXPECT_GT(BusBandwidth(kGiB, H100(1, true)), 460);
  EXPECT_LT(BusBandwidth(8 * kGiB, H100(1, true)), 485);
  EXPECT_EQ(Choice(kGiB, H100(1, true)), "NVLS Simple");
  EXPECT_EQ(Choice(kGiB, H100(2, true)), "NVLSTree Simple");
  // The switch needs more than two devices, and is used for sums only.
  NcclGroup pair = H100(1, true);
  pair.ranks = 2;
  EXPECT_EQ(Choice(kGiB, pair), "Ring Simple");
  EXPECT_EQ(Choice(kGiB, H100(1, true), CollectiveKind::kAllGather), "Ring Simple");
}

// If switches between nodes sum, every byte leaves a node once, in one hop, however many nodes there are.
TEST(Nccl, SumsInTheFabric) {
  NcclGroup sharp = H100(64, true);
  sharp.fabric_reduces = true;
  EXPECT_EQ(Choice(kGiB, sharp), "NVLS Simple");
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kNvls, NcclProtocol::kSimple, kAllReduce, 1e9, sharp),
              43e-6 + 1e9 / (370.8e9 * 0.85 * 7 / 8), 1e-12);
  EXPECT_FALSE(NcclSeconds(NcclAlgorithm::kNvls, NcclProtocol::kSimple, kAllReduce, 1e9, H100(64, true)).has_value());
  EXPECT_LT(Seconds(kGiB, sharp), Seconds(kGiB, H100(64, true)));

  NcclGroup a100 = A100(128);
  EXPECT_FALSE(NcclSeconds(NcclAlgorithm::kCollNetChain, NcclProtocol::kSimple, kAllReduce, 1e9, a100).has_value());
  a100.fabric_reduces = true;
  // Direct messages: latency of one hop, 7 further ranks and the network. Inside a node 8 / 14 of 240 GB/s is less than
  // the 180 GB/s outside.
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kCollNetDirect, NcclProtocol::kSimple, kAllReduce, 1e9, a100),
              (3.7 + 7 * 0.4 + 31) * 1e-6 + 1e9 / (240e9 * 8 / 14), 1e-12);
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kCollNetChain, NcclProtocol::kSimple, kAllReduce, 1e9, a100),
              (14 * 2.8 + 30) * 1e-6 + 1e9 / 120e9, 1e-12);
  EXPECT_EQ(Choice(kGiB, a100), "CollNetDirect Simple");
  EXPECT_FALSE(NcclSeconds(NcclAlgorithm::kCollNetDirect, NcclProtocol::kLL, kAllReduce, 1e9, a100).has_value());
  EXPECT_FALSE(NcclSeconds(NcclAlgorithm::kCollNetChain, NcclProtocol::kSimple, CollectiveKind::kAllGather, 1e9, a100)
                   .has_value());
  a100.nvlink = false;
  EXPECT_FALSE(NcclSeconds(NcclAlgorithm::kCollNetDirect, NcclProtocol::kSimple, kAllReduce, 1e9, a100).has_value());
  // With one rank on each node there is nothing to sum inside.
  NcclGroup single = A100(16, 1);
  single.fabric_reduces = true;
  EXPECT_NEAR(*NcclSeconds(NcclAlgorithm::kCollNetChain, NcclProtocol::kSimple, kAllReduce, 1e9, single),
              30e-6 + 1e9 / 22.5e9, 1e-12);
}

TEST(Nccl, ShortMessagesTakeLatencyLongOnesBandwidth) {
  EXPECT_EQ(Choice(4096, A100(1)), "Ring LL");
  EXPECT_EQ(Choice(4 * kMiB, A100(1)), "Ring LL128");
  EXPECT_EQ(Choice(256 * kMiB, A100(1)), "Ring Simple");
  // With 1,024 devices a ring has 2,046 steps.
  EXPECT_EQ(Choice(1024, A100(128)), "Tree LL");
  EXPECT_EQ(Choice(kGiB, A100(128)).substr(0, 4), "Tree");
  EXPECT_EQ(Choice(64 * kGiB, A100(128)), "Ring Simple");
  const double ring = *NcclSeconds(NcclAlgorithm::kRing, NcclProtocol::kLL, kAllReduce, 1024, A100(128));
  EXPECT_GT(ring, 10 * Seconds(1024, A100(128)));
  // All-gathers and reduce-scatters use rings only.
  EXPECT_EQ(Choice(1024, A100(128), CollectiveKind::kReduceScatter), "Ring LL");
  // Without NVLink there is no LL128.
  NcclGroup pcie = A100(1);
  pcie.nvlink = false;
  pcie.inside_bytes_per_second = 20e9;
  for (double bytes = 64; bytes < kGiB; bytes *= 2) EXPECT_EQ(Choice(bytes, pcie).find("LL128"), std::string::npos);
}

TEST(Nccl, MoreBytesTakeLongerAndNoneBeatsTheBandwidth) {
  NcclGroup single = A100(16, 1);
  for (const NcclGroup& group : {A100(1), A100(2), A100(16), A100(128), single, H100(1, true), H100(1, false),
                                 H100(2, true), H100(64, true), H100(64, false)}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      const double n = static_cast<double>(group.ranks);
      const double bus = group.nodes == 1 ? group.inside_bytes_per_second : group.outside_bytes_per_second;
      const double times = kind == kAllReduce ? 2 : 1;
      double before = 0;
      for (double bytes = 1; bytes < 64 * kGiB; bytes *= 1.07) {
        const double seconds = Seconds(bytes, group, kind);
        EXPECT_GE(seconds, before) << group.ranks << " " << bytes;
        // If a switch sums, each device sends every byte to it once. With several nodes, the nodes then exchange parts.
        const bool sums = group.switch_reduces && kind == kAllReduce;
        const double share = sums ? static_cast<double>(group.nodes) : n;
        const double part = sums && group.nodes == 1 ? 1 : times * (share - 1) / share;
        const double bound = part * bytes / bus;
        EXPECT_GE(seconds, bound * (1 - 1e-12)) << group.ranks << " " << bytes;
        before = seconds;
      }
    }
  }
}

TEST(Nccl, SendsTakeBaseAndHop) {
  // With Simple, the latency is 11.8 us inside a node and 22.4 us between nodes.
  const NcclMessage inside = NcclSend(1e6, 240e9, /*crosses=*/false, /*nvlink=*/true);
  EXPECT_NEAR(inside.seconds, 8.4e-6 + 1e6 / 240e9, 1e-15);
  EXPECT_NEAR(inside.latency_seconds, 3.4e-6, 1e-15);
  const NcclMessage outside = NcclSend(1e6, 25e9, true, true);
  EXPECT_NEAR(outside.seconds + outside.latency_seconds, 22.4e-6 + 1e6 / 25e9, 1e-12);
  const NcclMessage small = NcclSend(1000, 25e9, true, true);
  EXPECT_NEAR(small.seconds, 6.6e-6 + 2000 / 25e9, 1e-15);
  EXPECT_NEAR(small.latency_seconds, 2.7e-6, 1e-15);
}

}  // namespace
}  // namespace weft::sim
