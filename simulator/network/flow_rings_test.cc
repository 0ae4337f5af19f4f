#include "simulator/network/flow_rings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using Rings = std::vector<std::vector<int32_t>>;

void ExpectPermutations(const Rings& rings, int32_t n) {
  for (std::vector<int32_t> ring : rings) {
    std::sort(ring.begin(), ring.end());
    std::vector<int32_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ring, all);
  }
}

// BalancedLinks is the number of all rings, divided by the number of rings on the link with the most.
TEST(BalancedLinks, AreThoseOfTheRings) {
  for (int32_t n = 2; n <= 40; ++n) {
    const Rings rings = BalancedRings(n);
    std::map<std::pair<int32_t, int32_t>, int64_t> on_link;
    int64_t most = 0;
    for (const auto& ring : rings) {
      for (int32_t i = 0; i < n; ++i) most = std::max(most, ++on_link[{ring[i], ring[(i + 1) % n]}]);
    }
    EXPECT_EQ(BalancedLinks(n) * most, static_cast<int64_t>(rings.size())) << n;
  }
}

TEST(RotatedRings, OneNodeHasOneInOrder) {
  EXPECT_EQ(RotatedRings({5, 5, 5}), (Rings{{0, 1, 2}}));
  EXPECT_EQ(RotatedRings({4, 7, 9}), (Rings{{0, 1, 2}}));
}

TEST(RotatedRings, TheExampleOfTheHeader) {
  const Rings rings = RotatedRings({0, 0, 0, 0, 1, 1, 1, 1});
  ASSERT_EQ(rings.size(), 4u);
  EXPECT_EQ(rings[0], (std::vector<int32_t>{0, 1, 2, 3, 7, 6, 5, 4}));
  EXPECT_EQ(rings[1], (std::vector<int32_t>{1, 2, 3, 0, 4, 7, 6, 5}));
  ExpectPermutations(rings, 8);
}

TEST(RotatedRings, EveryMemberSendsAndReceivesOneMessageOfAnotherNodeOnItsRail) {
  for (const int64_t nodes : {2, 4, 6}) {
    for (const int64_t members : {1, 2, 3, 8}) {
      std::vector<int64_t> node_of;
      for (int64_t i = 0; i < nodes * members; ++i) node_of.push_back(i / members);
      const Rings rings = RotatedRings(node_of);
      ASSERT_EQ(rings.size(), static_cast<size_t>(members));
      ExpectPermutations(rings, static_cast<int32_t>(node_of.size()));
      std::map<int32_t, int> sent, received;
      for (const auto& ring : rings) {
        for (size_t i = 0; i < ring.size(); ++i) {
          const int32_t from = ring[i], to = ring[(i + 1) % ring.size()];
          if (node_of[from] == node_of[to]) continue;
          ++sent[from];
          ++received[to];
          EXPECT_EQ(from % members, to % members) << nodes << " nodes of " << members;
        }
      }
      for (size_t i = 0; i < node_of.size(); ++i) {
        EXPECT_EQ(sent[i], 1);
        EXPECT_EQ(received[i], 1);
      }
    }
  }
}

TEST(RotatedRings, UseEachLinkOfLinkedMembersOnce) {
  for (const int64_t nodes : {2, 4}) {
    for (const int64_t members : {2, 4, 6, 8, 16}) {
      std::vector<int64_t> node_of;
      for (int64_t i = 0; i < nodes * members; ++i) node_of.push_back(i / members);
      const Rings rings = RotatedRings(node_of, true);
      ASSERT_EQ(rings.size(), static_cast<size_t>(members));
      ExpectPermutations(rings, static_cast<int32_t>(node_of.size()));
      std::map<std::pair<int32_t, int32_t>, int> on_link;
      for (const auto& ring : rings) {
        for (size_t i = 0; i < ring.size(); ++i) ++on_link[{ring[i], ring[(i + 1) % ring.size()]}];
      }
      // Rings use every link of every node, and the rail of every member.
      EXPECT_EQ(on_link.size(), node_of.size() * static_cast<size_t>(members)) << nodes << " nodes of " << members;
      for (const auto& [link, times] : on_link) {
        EXPECT_EQ(times, 1);
        if (node_of[link.first] != node_of[link.second]) {
          EXPECT_EQ(link.first % members, link.second % members);
        }
      }
    }
  }
  EXPECT_EQ(RotatedRings({0, 0, 0, 0, 1, 1, 1, 1}, true)[0], (std::vector<int32_t>{0, 1, 3, 2, 6, 7, 5, 4}));
  EXPECT_EQ(RotatedRings({0, 0, 0, 0, 1, 1, 1, 1}, true)[1], (std::vector<int32_t>{1, 2, 0, 3, 7, 4, 6, 5}));
  // There are no orders that use each link once for three members, nor for nodes of different sizes.
  EXPECT_EQ(RotatedRings({0, 0, 0, 1, 1, 1}, true), RotatedRings({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(RotatedRings({0, 0, 0, 0, 1, 1, 1, 1, 1}, true), RotatedRings({0, 0, 0, 0, 1, 1, 1, 1, 1}));
}

TEST(InsidePart, IsWhatTheRingsPutOnALink) {
  for (const bool linked : {false, true}) {
    for (const int64_t g : {1, 2, 3, 4, 5, 8}) {
      std::vector<int64_t> node_of;
      for (int64_t i = 0; i < 2 * g; ++i) node_of.push_back(i / g);
      const Rings rings = RotatedRings(node_of, linked);
      std::map<std::pair<int32_t, int32_t>, int> on_link;
      int most = 0;
      for (const auto& ring : rings) {
        for (size_t i = 0; i < ring.size(); ++i) {
          const int32_t from = ring[i], to = ring[(i + 1) % ring.size()];
          if (node_of[from] == node_of[to]) most = std::max(most, ++on_link[{from, to}]);
        }
      }
      EXPECT_DOUBLE_EQ(InsidePart(g, linked), static_cast<double>(most) / static_cast<double>(rings.size())) << g;
    }
  }
}

TEST(RotatedRings, UnevenNodesAndRanksInAnyOrder) {
  // Node 3 has members 0, 2 and 4, node 1 has members 1 and 3, so there are two rings.
  const Rings rings = RotatedRings({3, 1, 3, 1, 3});
  EXPECT_EQ(rings, (Rings{{0, 2, 4, 3, 1}, {2, 4, 0, 1, 3}}));
}

TEST(BalancedRings, AllLinksAreInAsManyRings) {
  for (int32_t n = 2; n <= 33; ++n) {
    SCOPED_TRACE(n);
    const Rings rings = BalancedRings(n);
    ExpectPermutations(rings, n);
    std::map<std::pair<int32_t, int32_t>, size_t> messages;
    for (const auto& ring : rings) {
      for (int32_t i = 0; i < n; ++i) ++messages[{ring[i], ring[(i + 1) % n]}];
    }
    if (n % 2 == 0 && n > 16) {
      // One link of each member is unused.
      EXPECT_EQ(messages.size(), static_cast<size_t>(n * (n - 2)));
    } else {
      EXPECT_EQ(messages.size(), static_cast<size_t>(n * (n - 1)));
    }
    for (const auto& [link, rings_of_link] : messages) {
      EXPECT_EQ(rings_of_link * messages.size(), rings.size() * static_cast<size_t>(n));
    }
  }
}

}  // namespace
}  // namespace weft::sim
