#include "planner/fit/node_bytes.h"

#include <algorithm>
#include <map>

#include "proto/util/mesh.h"
#include "simulator/network/placement.h"

namespace weft::planner {

int64_t FullestNodeBytes(const PlanMemory& memory, const Mesh& mesh, const Cluster& cluster) {
  const auto any = [](const RankMemory& rank) { return rank.host_bytes > 0; };
  if (std::none_of(memory.ranks.begin(), memory.ranks.end(), any)) return 0;
  const absl::StatusOr<sim::RankPlacement> placement = sim::RankPlacement::Make(MeshRanks(mesh), cluster);
  if (!placement.ok()) return 0;
  std::map<int64_t, int64_t> bytes;
  int64_t most = 0;
  for (int64_t rank = 0; rank < placement->ranks(); ++rank) {
    int64_t& of_node = bytes[placement->NodeOf(rank)];
    of_node += memory.ranks[AxisCoordinate(mesh, rank, "pipe")].host_bytes;
    most = std::max(most, of_node);
  }
  return most;
}

}  // namespace weft::planner
