#include "cli/fit.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "proto/suggest.h"
#include "proto/units_text.h"
#include "simulator/network/placement.h"

namespace weft {
namespace {

// "rank 3 on device 1 of node 0, 'smaller', which has"; as the report finds its figures. Empty where all are alike.
std::string TightestRank(const Program& program, const RankPlacement& placement) {
  if (placement.all_alike()) return "";
  int64_t least = std::numeric_limits<int64_t>::max(), tightest = 0;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    const int t = TemplateOfRank(program, rank);
    if (t < 0) continue;
    const Device& device = *placement.kinds()[placement.KindOf(rank)];
    const int64_t room = device.memory_bytes() - device.reserved_bytes() - program.templates(t).device_arena_bytes();
    if (room >= least) continue;
    least = room;
    tightest = rank;
  }
  return absl::StrCat("rank ", tightest, " on device ", placement.DeviceInNode(tightest), " of node ",
                      placement.NodeOf(tightest), ", ", Quoted(placement.kinds()[placement.KindOf(tightest)]->name()),
                      ", which has ");
}

}  // namespace

absl::Status CheckFit(const SimulationReport& report, const Program& program, const Cluster& cluster) {
  if (report.fits()) return absl::OkStatus();
  if (report.device_bytes() <= report.capacity_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the program needs ", BytesText(report.planned_host_bytes()), " of the memory of a node; ", report.cluster(),
        " has ", BytesText(report.host_capacity_bytes()), " (cluster.host_memory_bytes)"));
  }
  const auto placement = RankPlacement::Make(MeshRanks(program.mesh()), cluster);
  const std::string rank = placement.ok() ? TightestRank(program, *placement) : "";
  return absl::ResourceExhaustedError(absl::StrCat(
      "the program needs ", BytesText(report.device_bytes()),
      rank.empty() ? absl::StrCat(" per device; ", report.cluster(), " has ") : absl::StrCat(" for ", rank),
      BytesText(report.capacity_bytes())));
}

}  // namespace weft
