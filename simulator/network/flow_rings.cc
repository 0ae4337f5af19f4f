#include "simulator/network/flow_rings.h"

#include <algorithm>
#include <map>

namespace weft {

std::vector<std::vector<int32_t>> RotatedRings(absl::Span<const int64_t> nodes) {
  std::vector<std::vector<int32_t>> on_node;
  std::map<int64_t, size_t> index;
  for (size_t member = 0; member < nodes.size(); ++member) {
    const auto [at, added] = index.emplace(nodes[member], on_node.size());
    if (added) on_node.emplace_back();
    on_node[at->second].push_back(static_cast<int32_t>(member));
  }
  size_t count = 1;
  if (on_node.size() > 1) {
    count = nodes.size();
    for (const auto& members : on_node) count = std::min(count, members.size());
  }
  std::vector<std::vector<int32_t>> rings(count);
  for (size_t j = 0; j < count; ++j) {
    rings[j].reserve(nodes.size());
    for (size_t k = 0; k < on_node.size(); ++k) {
      const std::vector<int32_t>& members = on_node[k];
      const size_t g = members.size();
      for (size_t i = 0; i < g; ++i) rings[j].push_back(members[k % 2 == 0 ? (j + i) % g : (j + 2 * g - 1 - i) % g]);
    }
  }
  return rings;
}

std::vector<std::vector<int32_t>> DisjointRings(int32_t n) {
  if (n == 2) return {{0, 1}};
  // Walecki: members 0..2k-1 in zigzag, 0 1 2k-1 2 2k-2 ... k, and its rotations; then 2k closes the ring. Neighbours
  // of a zigzag are 1, 2, ..., 2k-1 apart, so each rotation has every distance once, and k rotations have no pair
  // twice.
  const int32_t k = (n - 1) / 2;
  std::vector<std::vector<int32_t>> rings;
  for (int32_t rotation = 0; rotation < k; ++rotation) {
    std::vector<int32_t> ring;
    int32_t before = 0;
    for (int32_t i = 0; i < 2 * k; ++i) {
      const int32_t at = i % 2 == 1 ? (i + 1) / 2 : (2 * k - i / 2) % (2 * k);
      // With even n the last member stands in the middle of the two that are k apart: there over all rotations every
      // member is once.
      if (n % 2 == 0 && i > 0 && (at - before + 2 * k) % (2 * k) == k) ring.push_back(n - 1);
      ring.push_back((at + rotation) % (2 * k));
      before = at;
    }
    ring.push_back(2 * k);
    rings.push_back(ring);
    rings.emplace_back(ring.rbegin(), ring.rend());
  }
  return rings;
}

}  // namespace weft
