#include "simulator/network/nccl_tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::sim {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;

// By protocol: LL, LL128, Simple.
using ByProtocol = double[3];

// Base latencies of trees and rings, by protocol. All latencies in this file are in microseconds.
constexpr ByProtocol kTreeBase = {6.8, 14.0, 8.4};
constexpr ByProtocol kRingBase = {6.6, 14.0, 8.4};
// Latencies of one hop over NVLink, PCIe and the network.
enum Hop { kNvlinkHop, kPcieHop, kNetworkHop };
constexpr ByProtocol kTreeHop[] = {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}};
constexpr ByProtocol kRingHop[] = {{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}};
constexpr double kNvlsInside = 25.0;
constexpr double kNvlsTreeOutside = 20.9;
// Latencies of the part between nodes, for all nodes together, if the switches between nodes sum.
constexpr double kNvlsOutside = 18.0;
constexpr double kCollNetDirectInside = 3.7, kCollNetDirectOutside = 31.0;
constexpr double kCollNetChainInside = 2.8, kCollNetChainOutside = 30.0;
// CollNetDirect: latency of each further rank of the node, and a factor on the bandwidth for Hopper and later.
constexpr double kCollNetDirectRank = 0.4;
constexpr double kCollNetDirectHopper = 0.85;
// Latency of posting a message to the network on an Intel host. The Simple protocol posts three times.
constexpr double kNetworkPost = 1.0;

enum Generation { kVolta, kAmpere, kHopper, kBlackwell };
// Bandwidths in GB/s by generation, by number of nodes (1, 2, more), or by both.
using ByNodes = double[3];
constexpr ByNodes kLLOneNode = {39.0, 87.7, 141.0};
constexpr double kLLOneNodeBlackwell = 282.0;
constexpr ByNodes kLLNodes = {0.0, 39.0, 20.4};
constexpr ByNodes kTreePerChannel[] = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}};
constexpr double kRingLL128PerChannel[] = {20.0, 20.0, 36.7, 40.0};
constexpr ByNodes kTreeLL128PerChannel[] = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}};
constexpr double kNvlsEfficiency[] = {0.0, 0.0, 0.85, 0.74};

// Factor on the bandwidth of trees, by protocol, for buffers of 64 x 2^i bytes.
constexpr double kTreeCorrection[3][23] = {
    {1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0},
    {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
     0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9}};

// For buffers of at least kPlateauBytes bytes per channel and rank, an all-reduce by Simple rings over several nodes
// has kPlateau times the latency (kPlateauBeforeAmpere times before Ampere).
constexpr double kPlateauBytes = 64;
constexpr double kPlateau = 1.4;
constexpr double kPlateauBeforeAmpere = 1.9;

constexpr double kMaxBytesOfLLSend = 16384;

Generation GenerationOf(int compute_capability) {
  if (compute_capability >= 100) return kBlackwell;
  if (compute_capability >= 90) return kHopper;
  return compute_capability >= 80 ? kAmpere : kVolta;
}

// Returns the bandwidth, in GB/s, of one NVLink or of one PCIe slot.
double LinkBandwidth(const NcclGroup& group) {
  if (!group.nvlink) return 12.0;
  if (group.compute_capability >= 100) return 40.1;
  if (group.compute_capability >= 90) return 20.6;
  return group.compute_capability >= 70 ? 20.0 : 18.0;
}

double Log2Floor(int64_t n) {
  int64_t log = 0;
  while (n > 1) {
    n /= 2;
    ++log;
  }
  return static_cast<double>(log);
}

double TreeCorrection(int protocol, double bytes) {
  constexpr int kRows = 23;
  const double* rows = kTreeCorrection[protocol];
  const auto row = [&](int i) { return i < kRows ? rows[i] : 1.0; };
  if (bytes <= 64) return rows[0];
  const int below = std::min(static_cast<int>(std::floor(std::log2(bytes / 64))), kRows);
  const double from = std::ldexp(64.0, below);
  return row(below) + (row(below + 1) - row(below)) * std::min(std::max(bytes / from - 1, 0.0), 1.0);
}

struct Model {
  const NcclGroup& group;
  CollectiveKind kind;
  double bytes;
  // Number of ranks, of nodes, and of ranks on a node.
  double n = static_cast<double>(group.ranks);
  double nodes = static_cast<double>(group.nodes);
  int64_t g = std::max<int64_t>(group.ranks / group.nodes, 1);
  Generation generation = GenerationOf(group.compute_capability);
  int size = static_cast<int>(std::min<int64_t>(group.nodes, 3)) - 1;
  Hop inside = group.nvlink ? kNvlinkHop : kPcieHop;

  bool all_reduce() const { return kind == CollectiveKind::kAllReduce; }

  // Returns the bandwidth of a ring in GB/s.
  double Bus() const {
    double bus = std::numeric_limits<double>::infinity();
    if (group.nodes > 1) bus = group.outside_bytes_per_second;
    if (group.nodes < group.ranks) bus = std::min(bus, group.inside_bytes_per_second);
    return bus / kGigabyte;
  }
  double Channels() const { return std::max(2.0, std::ceil(Bus() / LinkBandwidth(group) - 1e-9)); }
  double MostOfLL() const {
    if (group.nodes > 1) return kLLNodes[size];
    return generation == kBlackwell ? kLLOneNodeBlackwell : kLLOneNode[generation];
  }

  double Ring(NcclProtocol protocol) const {
    const int p = static_cast<int>(protocol);
    double bus = Bus();
    if (protocol == NcclProtocol::kLL) bus = std::min(0.5 * bus, MostOfLL());
    if (protocol == NcclProtocol::kLL128) bus = std::min(0.92 * bus, Channels() * kRingLL128PerChannel[generation]);
    const double times = all_reduce() ? 2 : 1;
    const double steps = times * (n - 1);
    const double crossing = times * (nodes - 1);
    double hop = kRingHop[inside][p];
    if (group.nodes > 1) hop = std::max(hop, kNetworkPost * (protocol == NcclProtocol::kSimple ? 3 : 1));
    // With one rank per node, nothing hides the network's latency.
    const double out = group.nodes == group.ranks ? kTreeHop[kNetworkHop][p] : kRingHop[kNetworkHop][p];
    double latency = kRingBase[p] + (steps - crossing) * hop + crossing * out;
    if (protocol == NcclProtocol::kSimple && group.nodes > 1 && all_reduce() &&
        bytes >= kPlateauBytes * Channels() * n) {
      latency *= generation == kVolta ? kPlateauBeforeAmpere : kPlateau;
    }
    return latency * kMicrosecond + bytes / (bus * n / steps * kGigabyte);
  }

  double Tree(NcclProtocol protocol) const {
    const int p = static_cast<int>(protocol);
    double bus = std::min(0.92 * Bus(), Channels() * kTreePerChannel[generation][size]);
    if (protocol == NcclProtocol::kLL) bus = std::min(bus / 3.8, MostOfLL());
    if (protocol == NcclProtocol::kLL128) {
      bus = std::min(bus * (group.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                     Channels() * kTreeLL128PerChannel[generation][size]);
    }
    const double latency = kTreeBase[p] + 2 * (static_cast<double>(g - 1) * kTreeHop[inside][p] +
                                               Log2Floor(group.nodes) * kTreeHop[kNetworkHop][p]);
    return latency * kMicrosecond + bytes / (bus * 0.5 * TreeCorrection(p, bytes) * kGigabyte);
  }

  double CollNet(NcclAlgorithm algorithm) const {
    const bool direct = algorithm == NcclAlgorithm::kCollNetDirect;
    const double others = static_cast<double>(g - 1);
    double bandwidth = group.outside_bytes_per_second;
    if (g > 1) {
      // A chain moves each byte around the node. Direct messages move each part to its rank and back.
      const double inside_bandwidth = group.inside_bytes_per_second *
                                      (direct ? static_cast<double>(g) / (2 * others) : 0.5) *
                                      (direct && generation >= kHopper ? kCollNetDirectHopper : 1);
      bandwidth = std::min(bandwidth, inside_bandwidth);
    }
    const double latency =
        direct ? std::min(1.0, others) * kCollNetDirectInside + others * kCollNetDirectRank + kCollNetDirectOutside
               : 2 * others * kCollNetChainInside + kCollNetChainOutside;
    return latency * kMicrosecond + bytes / bandwidth;
  }

  double Nvls(NcclAlgorithm algorithm) const {
    const double inside_bandwidth = group.inside_bytes_per_second * kNvlsEfficiency[generation] *
                                    static_cast<double>(g - 1) / static_cast<double>(g);
    if (group.nodes == 1) return kNvlsInside * kMicrosecond + bytes / inside_bandwidth;
    if (algorithm == NcclAlgorithm::kNvls) {
      return (kNvlsInside + kNvlsOutside) * kMicrosecond +
             bytes / std::min(inside_bandwidth, group.outside_bytes_per_second);
    }
    const double outside_bandwidth = group.outside_bytes_per_second / (group.nodes == 2 ? 1 : 2);
    const double latency = kNvlsInside + 2 * Log2Floor(group.nodes) * kNvlsTreeOutside;
    return latency * kMicrosecond + bytes / std::min(inside_bandwidth, outside_bandwidth);
  }
};

}  // namespace

absl::string_view NcclAlgorithmName(NcclAlgorithm algorithm) {
  constexpr absl::string_view kNames[] = {"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree"};
  return kNames[static_cast<int>(algorithm)];
}

absl::string_view NcclProtocolName(NcclProtocol protocol) {
  constexpr absl::string_view kNames[] = {"LL", "LL128", "Simple"};
  return kNames[static_cast<int>(protocol)];
}

std::optional<double> NcclSeconds(NcclAlgorithm algorithm, NcclProtocol protocol, CollectiveKind kind, double bytes,
                                  const NcclGroup& group) {
  const Model model = {.group = group, .kind = kind, .bytes = bytes};
  // LL128 relies on the order of stores over NVLink.
  if (protocol == NcclProtocol::kLL128 && !(group.nvlink && group.compute_capability >= 70)) return std::nullopt;
  switch (algorithm) {
    case NcclAlgorithm::kRing:
      return model.Ring(protocol);
    case NcclAlgorithm::kTree:
      if (!model.all_reduce()) return std::nullopt;
      return model.Tree(protocol);
    case NcclAlgorithm::kCollNetDirect:
    case NcclAlgorithm::kCollNetChain:
      if (protocol != NcclProtocol::kSimple || !model.all_reduce() || !group.fabric_reduces ||
          (algorithm == NcclAlgorithm::kCollNetDirect && !group.nvlink)) {
        return std::nullopt;
      }
      return model.CollNet(algorithm);
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
      if (protocol != NcclProtocol::kSimple || !model.all_reduce() || !group.switch_reduces || !group.nvlink ||
          model.generation < kHopper || model.g <= 2) {
        return std::nullopt;
      }
      if (algorithm == NcclAlgorithm::kNvls ? group.nodes > 1 && !group.fabric_reduces : group.nodes == 1) {
        return std::nullopt;
      }
      return model.Nvls(algorithm);
  }
  return std::nullopt;
}

std::pair<NcclAlgorithm, NcclProtocol> NcclChoice(CollectiveKind kind, double bytes, const NcclGroup& group) {
  std::pair<NcclAlgorithm, NcclProtocol> best = {NcclAlgorithm::kRing, NcclProtocol::kSimple};
  std::optional<double> least;
  for (const NcclAlgorithm algorithm : {NcclAlgorithm::kTree, NcclAlgorithm::kRing, NcclAlgorithm::kCollNetDirect,
                                        NcclAlgorithm::kCollNetChain, NcclAlgorithm::kNvls, NcclAlgorithm::kNvlsTree}) {
    for (const NcclProtocol protocol : {NcclProtocol::kLL, NcclProtocol::kLL128, NcclProtocol::kSimple}) {
      const std::optional<double> seconds = NcclSeconds(algorithm, protocol, kind, bytes, group);
      if (!seconds.has_value() || (least.has_value() && *seconds >= *least)) continue;
      least = seconds;
      best = {algorithm, protocol};
    }
  }
  return best;
}

NcclMessage NcclSend(double bytes, double bytes_per_second, bool crosses, bool nvlink) {
  const NcclProtocol protocol = bytes <= kMaxBytesOfLLSend ? NcclProtocol::kLL : NcclProtocol::kSimple;
  const int p = static_cast<int>(protocol);
  const Hop hop = crosses ? kNetworkHop : nvlink ? kNvlinkHop : kPcieHop;
  const double share = protocol == NcclProtocol::kLL ? 0.5 : 1;
  return {kRingBase[p] * kMicrosecond + bytes / (share * bytes_per_second), kRingHop[hop][p] * kMicrosecond};
}

}  // namespace weft::sim
