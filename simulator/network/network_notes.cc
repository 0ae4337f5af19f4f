#include "simulator/network/network_notes.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "simulator/network/placement.h"

namespace weft {
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

// The groups of all ring collectives of a template, each once.
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

// How often a ring in order of ranks goes from a node to another, and of how many nodes; of the ring for which the
// first is most above the second. {0, 0} if all go from node to node once.
std::pair<int64_t, int64_t> MostScattered(const Program& program, const RankPlacement& placement) {
  std::pair<int64_t, int64_t> most;
  std::vector<std::vector<const Group*>> groups;
  for (const Template& t : program.templates()) groups.push_back(RingGroups(program, t));
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    const int of = TemplateOfRank(program, rank);
    if (of < 0) continue;
    for (const Group* group : groups[of]) {
      const std::vector<int64_t> members = GroupMembers(program.mesh(), rank, *group);
      if (members.empty() || members.front() != rank) continue;
      std::set<int64_t> nodes;
      int64_t crossing = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        const int64_t node = placement.NodeOf(members[i]);
        nodes.insert(node);
        crossing += node != placement.NodeOf(members[(i + 1) % members.size()]);
      }
      const int64_t least = nodes.size() > 1 ? static_cast<int64_t>(nodes.size()) : 0;
      if (crossing - least > most.first - most.second) most = {crossing, least};
    }
  }
  return most;
}

}  // namespace

std::vector<std::string> NotesOnNetwork(const Program& program, const Cluster& cluster, absl::string_view network) {
  std::vector<std::string> notes;
  const int64_t ranks = MeshRanks(program.mesh()), devices = cluster.placement().devices_of_ranks_size();
  if (devices > ranks) {
    notes.push_back(absl::StrCat("cluster.placement.devices_of_ranks has ", devices, " devices, the program ", ranks,
                                 ranks == 1 ? " rank" : " ranks", ": the first ", ranks, " are taken"));
  }
  if (network != "analytic" && network != "nccl") return notes;
  const absl::StatusOr<RankPlacement> placement = RankPlacement::Make(ranks, cluster);
  if (!placement.ok()) return notes;
  const auto leaves_out = [&](absl::string_view what) {
    notes.push_back(absl::StrCat("network '", network, "' does not share ", what,
                                 ": what meets there is predicted too fast; --network=flow has it"));
  };
  if (BridgesMeet(cluster, *placement)) leaves_out("the bridges inside a node (node_links.devices_per_bridge)");
  if (cluster.fabric().kind() == TORUS && placement->nodes().size() > 1) {
    leaves_out("the links of the torus between nodes (fabric.kind)");
  }
  // Only ranks that are placed one by one can come back to a node.
  if (network == "analytic" && cluster.placement().devices_of_ranks_size() > 0) {
    const auto [crossing, nodes] = MostScattered(program, *placement);
    if (crossing > nodes) {
      notes.push_back(
          absl::StrCat("network 'analytic' runs rings in order of ranks, as weft's own transports do: on "
                       "cluster.placement.devices_of_ranks one goes from node to node ",
                       crossing, " times a round where ", nodes,
                       " would do; of libraries that order members by node, --network=nccl or flow"));
    }
  }
  return notes;
}

}  // namespace weft
