#include "simulator/network/network_notes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "simulator/network/network_model.h"
#include "simulator/network/placement.h"

namespace weft::sim {
namespace {

bool BridgesMeet(const Cluster& cluster, const RankPlacement& placement) {
  const int64_t devices = cluster.node_links().devices_per_bridge();
  if (devices <= 0) return false;
  for (const int64_t node : placement.nodes()) {
    std::set<int64_t> bridges;
    for (const int64_t rank : placement.RanksOf(node)) bridges.insert(placement.DeviceInNode(rank) / devices);
    if (bridges.size() > 1) return true;
  }
  return false;
}

// Returns the groups of all ring collectives of a template, each once.
std::vector<const Group*> RingGroups(const Program& program, const Template& t) {
  std::vector<const Group*> groups;
  std::set<std::string> known;
  const auto add = [&](const std::string& algorithm, const Group& group) {
    if (algorithm == "ring" && known.insert(group.SerializeAsString()).second) groups.push_back(&group);
  };
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      if (action.has_group()) add(action.algorithm(), action.group());
      const bool communicates = action.has_group() || action.kind() == SEND || action.kind() == RECV;
      if (communicates || action.segment() >= program.segments_size()) continue;
      for (const Step& step : program.segments(action.segment()).steps()) {
        if (step.has_collective()) add(step.collective().algorithm(), step.collective().group());
      }
    }
  }
  return groups;
}

// Calls `on_ring` for each ring of the program once, with its members in the order of the ring.
template <typename OnRing>
void ForEachRing(const Program& program, const RankPlacement& placement, OnRing on_ring) {
  std::vector<std::vector<const Group*>> groups;
  for (const Template& t : program.templates()) groups.push_back(RingGroups(program, t));
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    const int of = TemplateOfRank(program, rank);
    if (of < 0) continue;
    for (const Group* group : groups[of]) {
      const std::vector<int64_t> members = GroupMembers(program.mesh(), rank, *group);
      if (!members.empty() && members.front() == rank) on_ring(members);
    }
  }
}

// Finds the ring with the most crossings between nodes beyond one per node. Returns its number of crossings, in order
// of ranks, and its number of nodes. {0, 0} if every ring visits each of its nodes once.
std::pair<int64_t, int64_t> MostScatteredRing(const Program& program, const RankPlacement& placement) {
  std::pair<int64_t, int64_t> most;
  ForEachRing(program, placement, [&](const std::vector<int64_t>& members) {
    std::set<int64_t> nodes;
    int64_t crossing = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      const int64_t node = placement.NodeOf(members[i]);
      nodes.insert(node);
      crossing += node != placement.NodeOf(members[(i + 1) % members.size()]);
    }
    const int64_t least = nodes.size() > 1 ? static_cast<int64_t>(nodes.size()) : 0;
    if (crossing - least > most.first - most.second) most = {crossing, least};
  });
  return most;
}

// Takes the ring whose nodes differ most in their number of members. Returns the fewest and the most members on a node.
// {0, 0} if every ring has equally many on all its nodes.
std::pair<int64_t, int64_t> MostUnevenRing(const Program& program, const RankPlacement& placement) {
  std::pair<int64_t, int64_t> uneven;
  ForEachRing(program, placement, [&](const std::vector<int64_t>& members) {
    std::map<int64_t, int64_t> on_node;
    for (const int64_t member : members) ++on_node[placement.NodeOf(member)];
    const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [fewest, most] = std::minmax_element(on_node.begin(), on_node.end(), by_count);
    if (most->second - fewest->second > uneven.second - uneven.first) uneven = {fewest->second, most->second};
  });
  return uneven;
}

// Returns a note if ranks fill node after node but do not fill the last one.
std::string NoteOnLastNode(const Program& program, const RankPlacement& placement) {
  const auto nodes = static_cast<int64_t>(placement.nodes().size());
  if (nodes < 2) return "";
  const auto beside = [&](int64_t rank) {
    return static_cast<int64_t>(placement.RanksOf(placement.NodeOf(rank)).size());
  };
  const int64_t full = beside(0), last = beside(placement.ranks() - 1);
  if (last >= full) return "";
  const auto [fewest, most] = MostUnevenRing(program, placement);
  if (fewest == most) return "";
  return absl::StrCat("the last of ", nodes, " nodes has ", last, last == 1 ? " rank" : " ranks", ", the others have ",
                      full, ", so the number of parallel rings over the nodes is ", fewest, " instead of ", most, "; ",
                      placement.ranks() - last, " ranks would fill ", nodes - 1, nodes == 2 ? " node" : " nodes");
}

}  // namespace

std::vector<std::string> NotesOnNetwork(const Program& program, const Cluster& cluster, absl::string_view network) {
  std::vector<std::string> notes;
  const int64_t ranks = MeshRanks(program.mesh()), devices = cluster.placement().devices_of_ranks_size();
  if (devices > ranks) {
    notes.push_back(absl::StrCat("cluster.placement.devices_of_ranks has ", devices, " devices, but the program has ",
                                 ranks, ranks == 1 ? " rank" : " ranks", "; weft uses the first ", ranks));
  }
  if (HasTrait(network, kTakesNoTime) || HasTrait(network, kIgnoresPlacement)) return notes;
  const absl::StatusOr<RankPlacement> placement = RankPlacement::Make(ranks, cluster);
  if (!placement.ok()) return notes;
  if (!HasTrait(network, kChoosesAlgorithms) && devices == 0) {
    std::string uneven = NoteOnLastNode(program, *placement);
    if (!uneven.empty()) notes.push_back(std::move(uneven));
  }
  if (HasTrait(network, kSharesLinks)) return notes;
  const auto leaves_out = [&](absl::string_view what) {
    notes.push_back(
        absl::StrCat("network '", network, "' does not model how transfers share ", what,
                     ", so its times for transfers that meet there are too short; --network=flow models it"));
  };
  if (BridgesMeet(cluster, *placement)) leaves_out("the bridges inside a node (node_links.devices_per_bridge)");
  if (cluster.fabric().kind() == TORUS && placement->nodes().size() > 1) {
    leaves_out("the links of the torus between nodes (fabric.kind)");
  }
  // A ring visits a node more than once only if the placement states the device of every rank.
  if (HasTrait(network, kRingsByRank) && cluster.placement().devices_of_ranks_size() > 0) {
    const auto [crossing, least] = MostScatteredRing(program, *placement);
    if (crossing > least) {
      notes.push_back(
          absl::StrCat("network 'analytic' runs rings in the order of ranks, as weft's own transports do; with "
                       "cluster.placement.devices_of_ranks a ring goes from node to node ",
                       crossing, " times per round, although ", least,
                       " would be enough; for libraries that order members by node, use --network=nccl or flow"));
    }
  }
  return notes;
}

}  // namespace weft::sim
