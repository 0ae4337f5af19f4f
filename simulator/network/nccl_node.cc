#include "simulator/network/nccl_node.h"

#include <algorithm>
#include <vector>

namespace weft::sim {

const Link* PairLink(const Cluster& cluster, int64_t first, int64_t second) {
  const NodeLinks& links = cluster.node_links();
  for (const DirectLink& direct : links.direct()) {
    if (std::minmax(direct.first(), direct.second()) == std::minmax(first, second)) return &direct.link();
  }
  return links.all_pairs() ? &cluster.intra_node() : nullptr;
}

std::optional<PairRings> FindPairRings(const Cluster& cluster, absl::Span<const int64_t> devices) {
  const NodeLinks& links = cluster.node_links();
  if (!links.all_pairs() && links.direct().empty()) return std::nullopt;
  PairRings rings;
  // Devices found so far that links join to the first device, by index. The links of those before index `next` have
  // been followed.
  std::vector<size_t> joined = {0};
  std::vector<bool> is_joined(devices.size(), false);
  is_joined[0] = true;
  for (size_t next = 0; next < joined.size(); ++next) {
    double sent = 0;
    size_t neighbors = 0;
    for (size_t other = 0; other < devices.size(); ++other) {
      const Link* link = other == joined[next] ? nullptr : PairLink(cluster, devices[joined[next]], devices[other]);
      if (link == nullptr) continue;
      sent += link->bytes_per_second();
      ++neighbors;
      if (rings.kind != PCIE) rings.kind = link->kind();
      if (is_joined[other]) continue;
      is_joined[other] = true;
      joined.push_back(other);
    }
    if (neighbors < std::min<size_t>(devices.size() - 1, 2)) return std::nullopt;
    rings.bytes_per_second = next == 0 ? sent : std::min(rings.bytes_per_second, sent);
  }
  if (joined.size() < devices.size()) return std::nullopt;
  return rings;
}

}  // namespace weft::sim
