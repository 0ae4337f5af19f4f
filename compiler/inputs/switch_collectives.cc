#include "compiler/inputs/switch_collectives.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "schedules/collective/plan.h"
#include "simulator/network/placement.h"
#include "simulator/network/switch_reduces.h"

namespace weft {
namespace {

// The groups whose collectives are done in switches, each group once.
class SwitchGroups {
 public:
  absl::Status AddProgram(const Program& program) {
    for (const Segment& segment : program.segments()) {
      for (const Step& step : segment.steps()) {
        if (step.has_collective()) WEFT_RETURN_IF_ERROR(Add(step.collective().algorithm(), step.collective().group()));
      }
    }
    for (const Template& t : program.templates()) {
      for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
        for (const Action& action : *list) {
          if (action.has_group()) WEFT_RETURN_IF_ERROR(Add(action.algorithm(), action.group()));
        }
      }
    }
    return absl::OkStatus();
  }

  const std::map<std::string, Group>& groups() const { return groups_; }

 private:
  absl::Status Add(const std::string& algorithm, const Group& group) {
    WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* entry, FindCollective(algorithm));
    if (entry->in_switch()) groups_.emplace(group.SerializeAsString(), group);
    return absl::OkStatus();
  }

  std::map<std::string, Group> groups_;
};

// True if, on each of its axes, `group` lists the coordinate of `rank` or lists no coordinates.
bool TakesPart(const Mesh& mesh, int64_t rank, const Group& group) {
  return std::all_of(group.axes().begin(), group.axes().end(), [&](const AxisSubset& subset) {
    const int64_t own = AxisCoordinate(mesh, rank, subset.axis());
    return subset.indices().empty() || std::count(subset.indices().begin(), subset.indices().end(), own) > 0;
  });
}

}  // namespace

absl::Status CheckSwitchCollectives(const Program& program, const Cluster& cluster) {
  SwitchGroups in_switches;
  WEFT_RETURN_IF_ERROR(in_switches.AddProgram(program));
  WEFT_RETURN_IF_ERROR(in_switches.AddProgram(program.evaluation()));
  if (in_switches.groups().empty()) return absl::OkStatus();
  const Mesh& mesh = program.mesh();
  const int64_t ranks = MeshRanks(mesh);
  WEFT_ASSIGN_OR_RETURN(const sim::RankPlacement placement, sim::RankPlacement::Make(ranks, cluster));
  for (const auto& [bytes, group] : in_switches.groups()) {
    if (GroupSize(mesh, group) <= 1) continue;
    std::vector<bool> seen(ranks, false);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (seen[rank] || !TakesPart(mesh, rank, group)) continue;
      std::vector<int64_t> nodes;
      for (const int64_t member : GroupMembers(mesh, rank, group)) {
        seen[member] = true;
        nodes.push_back(placement.NodeOf(member));
      }
      WEFT_RETURN_IF_ERROR(sim::SwitchWayOf(cluster, nodes).status());
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
