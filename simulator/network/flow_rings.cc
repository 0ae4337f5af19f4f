#include "simulator/network/flow_rings.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft::sim {
namespace {

using Rings = std::vector<std::vector<int32_t>>;

// Returns the i-th of the 2k members of Walecki's zigzag 0 1 2k-1 2 2k-2 ... k.
int32_t Zigzag(int32_t i, int32_t k) { return i % 2 == 1 ? (i + 1) / 2 : (2 * k - i / 2) % (2 * k); }

bool HasZigzags(int64_t g) { return g >= 4 && g % 2 == 0; }

constexpr int32_t kMaxBalanced = 16;

// Returns rings without a message in common: n - 1 for odd n > 2, n - 2 for even n.
Rings DisjointRings(int32_t n) {
  // Walecki: members 0..2k-1 in zigzag, 0 1 2k-1 2 2k-2 ... k, and its rotations; then 2k closes the ring. Neighbors in
  // a zigzag are 1, 2, ..., 2k-1 apart, so each rotation has every distance once, and k rotations have no pair twice.
  const int32_t k = (n - 1) / 2;
  Rings rings;
  for (int32_t rotation = 0; rotation < k; ++rotation) {
    std::vector<int32_t> ring;
    int32_t before = 0;
    for (int32_t i = 0; i < 2 * k; ++i) {
      const int32_t at = Zigzag(i, k);
      // For even n the last member goes between the two members that are k apart. Over all rotations, every member is
      // at that place once.
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

// For even n: returns, for each member, the one other member that is its neighbor in no ring of `rings`.
std::vector<int32_t> UnusedPartner(const Rings& rings, int32_t n) {
  // The sum of all other members, minus the sum of the neighbors in all rings, is the partner. A ring and its reverse
  // have the same neighbors, so only one of the two is counted.
  std::vector<int32_t> partner(n, n * (n - 1) / 2);
  for (int32_t member = 0; member < n; ++member) partner[member] -= member;
  for (size_t r = 0; r < rings.size(); r += 2) {
    for (int32_t i = 0; i < n; ++i) {
      const int32_t member = rings[r][i], next = rings[r][(i + 1) % n];
      partner[member] -= next;
      partner[next] -= member;
    }
  }
  return partner;
}

}  // namespace

double InsidePart(int64_t g, bool linked) {
  return static_cast<double>(linked && HasZigzags(g) ? 1 : g - 1) / static_cast<double>(g);
}

std::vector<std::vector<int32_t>> RotatedRings(absl::Span<const int64_t> nodes, bool linked) {
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
  const bool zigzags =
      linked && on_node.size() > 1 && HasZigzags(static_cast<int64_t>(count)) && count * on_node.size() == nodes.size();
  std::vector<std::vector<int32_t>> rings(count);
  for (size_t j = 0; j < count; ++j) {
    rings[j].reserve(nodes.size());
    for (size_t k = 0; k < on_node.size(); ++k) {
      const std::vector<int32_t>& members = on_node[k];
      const size_t g = members.size();
      if (zigzags) {
        // Ring j < g/2 takes the zigzag that begins at j; the other rings take the reversed zigzags.
        const size_t half = g / 2;
        for (size_t i = 0; i < g; ++i) {
          const size_t at = (j < half) == (k % 2 == 0) ? i : g - 1 - i;
          const size_t place = static_cast<size_t>(Zigzag(static_cast<int32_t>(at), static_cast<int32_t>(half)));
          rings[j].push_back(members[(place + j % half) % g]);
        }
        continue;
      }
      for (size_t i = 0; i < g; ++i) rings[j].push_back(members[k % 2 == 0 ? (j + i) % g : (j + 2 * g - 1 - i) % g]);
    }
  }
  return rings;
}

int64_t BalancedLinks(int64_t n) {
  if (n == 2) return 1;
  return n % 2 == 1 || n <= kMaxBalanced ? n - 1 : n - 2;
}

std::vector<std::vector<int32_t>> BalancedRings(int32_t n) {
  if (n == 2) return {{0, 1}};
  const Rings rings = DisjointRings(n);
  if (n % 2 == 1 || n > kMaxBalanced) return rings;
  // All pairs form n - 1 sets of n / 2 disjoint pairs (round i of a tournament: n-1 and i, i+j and i-j). Each round
  // renames the members so that the pairs that `rings` do not use become the pairs of its set. So every pair is unused
  // in one round and used in the n - 2 other rounds.
  const std::vector<int32_t> partner = UnusedPartner(rings, n);
  Rings balanced;
  for (int32_t round = 0; round < n - 1; ++round) {
    std::vector<int32_t> name(n);
    int32_t j = 0;
    for (int32_t member = 0; member < n; ++member) {
      if (partner[member] < member) continue;
      name[member] = j == 0 ? n - 1 : (round + j) % (n - 1);
      name[partner[member]] = (round + n - 1 - j) % (n - 1);
      ++j;
    }
    for (std::vector<int32_t> ring : rings) {
      for (int32_t& member : ring) member = name[member];
      balanced.push_back(std::move(ring));
    }
  }
  return balanced;
}

}  // namespace weft::sim
