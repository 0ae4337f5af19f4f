// Double binary tree. Half of the buffer is summed up one tree and comes back down it. The other half uses a second
// tree, in which the inner members of the first tree are leaves. Both halves are cut into chunks that follow one
// another.
//
//   n = 8         tree 0       0           tree 1       7           (member i of tree 0 is 7 - i here)
//                              |                        |
//                              4                        3
//                            /   \                    /   \       .
//                           2     6                  5     1
//                          / \   / \                / \   / \     .
//                         1   3 5   7              6   4 2   0
//
// In tree 0 of n members, member 0 is the root and has one child. The other members form a tree that is numbered from
// left to right. The root of each part is the member of the part whose number the highest power of two divides, so the
// leaves are the odd members. Tree 1 is the mirror image of tree 0, with n-1-i in place of i. If n is odd, tree 1 is
// tree 0 shifted, with i+1 mod n in place of i.
//
// Let h be the height (log2 n for a power of two). Chunk j (from 0) of a tree goes up from depth d in round h - d + j,
// so that both parts below a member arrive in the same round, and down to depth d in round h + j + d - 1. A member adds
// its children and itself in member order.
//
// Traffic: 2h + k - 1 rounds for k chunks in each tree. At most 4 messages of 1/(2k) of the buffer leave or reach a
//          member in one round, and 2(n-1)/n of the buffer leaves a member on average. With many chunks the time is
//          twice the buffer's time plus 2h latencies, where a ring has 2(n-1) latencies.
// Source:  Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
//          Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/collective/plan.h"

namespace weft {
namespace {

// Chunks per tree: few enough that short messages are not all latency, and enough that long messages lose little time
// while the trees fill.
constexpr int kChunksPerTree = 16;

// Returns the parent of each member in tree 0; -1 for the root.
std::vector<int> Parents(int n) {
  std::vector<int> parents(n, -1);
  // Each entry (first, last, parent): members first..last form a part whose root is a child of `parent`.
  std::vector<std::tuple<int, int, int>> open = {{1, n - 1, 0}};
  while (!open.empty()) {
    const auto [first, last, parent] = open.back();
    open.pop_back();
    if (first > last) continue;
    int step = 1;
    while ((last / (2 * step)) * (2 * step) >= first) step *= 2;
    const int root = last / step * step;
    parents[root] = parent;
    open.emplace_back(first, root - 1, root);
    open.emplace_back(root + 1, last, root);
  }
  return parents;
}

// The link between a member and its parent.
struct Edge {
  int child = 0;
  int parent = 0;
  // Depth of the child; 1 directly below the root.
  int depth = 0;
};

struct Trees {
  int height = 0;
  std::vector<Edge> edges[2];
};

Trees MakeTrees(int n) {
  Trees trees;
  const std::vector<int> parents = Parents(n);
  std::vector<int> depths(n, -1);
  depths[0] = 0;
  for (int member = 1; member < n; ++member) {
    int above = member, steps = 0;
    for (; depths[above] < 0; above = parents[above]) ++steps;
    for (int at = member, depth = depths[above] + steps; depths[at] < 0; at = parents[at]) depths[at] = depth--;
    trees.height = std::max(trees.height, depths[member]);
  }
  for (int member = 1; member < n; ++member) {
    const auto other = [n](int i) { return n % 2 == 0 ? n - 1 - i : (i + 1) % n; };
    trees.edges[0].push_back({member, parents[member], depths[member]});
    trees.edges[1].push_back({other(member), other(parents[member]), depths[member]});
  }
  return trees;
}

// The rounds in which the first chunk goes up and down an edge. The other chunks follow, one per round.
int FirstUp(const Trees& trees, const Edge& edge) { return trees.height - edge.depth; }
int FirstDown(const Trees& trees, const Edge& edge) { return trees.height + edge.depth - 1; }

// Calls f(edge, up, chunk) for every message of a round.
template <typename F>
void ForEachMessage(const Trees& trees, int round, F f) {
  for (const int tree : {0, 1}) {
    for (const Edge& edge : trees.edges[tree]) {
      const int up = round - FirstUp(trees, edge);
      const int down = round - FirstDown(trees, edge);
      // The chunks of the two trees alternate in the buffer.
      if (up >= 0 && up < kChunksPerTree) f(edge, true, 2 * up + tree);
      if (down >= 0 && down < kChunksPerTree) f(edge, false, 2 * down + tree);
    }
  }
}

int Rounds(const Trees& trees) { return 2 * trees.height + kChunksPerTree - 1; }

}  // namespace

CollectivePlan BuildTree(CollectiveKind kind, int members) {
  const Trees trees = MakeTrees(members);
  CollectivePlan plan = {.kind = kind, .members = members, .chunks = 2 * kChunksPerTree, .rounds = {}};
  for (int round = 0; round < Rounds(trees); ++round) {
    std::vector<CollectiveStep>& steps = plan.rounds.emplace_back();
    ForEachMessage(trees, round, [&](const Edge& edge, bool up, int chunk) {
      if (up) steps.push_back({edge.child, edge.parent, chunk, CollectiveOp::kReduce});
      if (!up) steps.push_back({edge.parent, edge.child, chunk, CollectiveOp::kCopy});
    });
    std::sort(steps.begin(), steps.end(), [](const CollectiveStep& a, const CollectiveStep& b) {
      return std::tie(a.destination, a.chunk, a.source) < std::tie(b.destination, b.chunk, b.source);
    });
  }
  return plan;
}

CollectiveTraffic BuildTreeTraffic(CollectiveKind, int64_t members) {
  const Trees trees = MakeTrees(static_cast<int>(members));
  // A link from one member to another. Its first message is in round `first`, and one more follows in each later round
  // until all chunks of the tree have passed.
  struct Way {
    int32_t source, destination;
    int first;
  };
  std::vector<Way> ways;
  for (const std::vector<Edge>& edges : trees.edges) {
    for (const Edge& edge : edges) {
      ways.push_back({edge.child, edge.parent, FirstUp(trees, edge)});
      ways.push_back({edge.parent, edge.child, FirstDown(trees, edge)});
    }
  }
  std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return std::tie(a.source, a.destination) < std::tie(b.source, b.destination);
  });
  CollectiveTraffic traffic = {.chunks = 2 * kChunksPerTree, .stages = {}};
  for (int round = 0; round < Rounds(trees); ++round) {
    std::vector<CollectiveExchange> exchanges;
    for (const Way& way : ways) {
      if (round < way.first || round >= way.first + kChunksPerTree) continue;
      if (!exchanges.empty() && exchanges.back().source == way.source &&
          exchanges.back().destination == way.destination) {
        ++exchanges.back().messages;
      } else {
        exchanges.push_back({way.source, way.destination});
      }
    }
    if (!traffic.stages.empty() && traffic.stages.back().exchanges == exchanges) {
      ++traffic.stages.back().rounds;
    } else {
      traffic.stages.push_back({.rounds = 1, .pattern = CollectiveStage::kListed, .exchanges = std::move(exchanges)});
    }
  }
  return traffic;
}

}  // namespace weft
