#include "cli/results/fit.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"
#include "simulator/network/placement.h"

namespace weft {
namespace {

// Returns "rank 3 on device 1 of node 0, 'smaller', which has"; empty if all devices are alike.
std::string PlaceOf(int64_t rank, const sim::RankPlacement& placement) {
  if (placement.all_alike()) return "";
  return absl::StrCat("rank ", rank, " on device ", placement.DeviceInNode(rank), " of node ", placement.NodeOf(rank),
                      ", ", Quoted(placement.kinds()[placement.KindOf(rank)]->name()), ", which has ");
}

}  // namespace

absl::Status CheckFit(const sim::Simulation& simulation, const Program& program, const Cluster& cluster) {
  const SimulationReport& report = simulation.report;
  if (report.fits()) return absl::OkStatus();
  if (report.device_bytes() <= report.capacity_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the program needs ", BytesText(report.planned_host_bytes()), " of host memory per node; ", report.cluster(),
        " has ", BytesText(report.host_capacity_bytes()), " (cluster.host_memory_bytes)"));
  }
  const auto placement = sim::RankPlacement::Make(MeshRanks(program.mesh()), cluster);
  const std::string rank = placement.ok() ? PlaceOf(simulation.tightest_rank, *placement) : "";
  return absl::ResourceExhaustedError(absl::StrCat(
      "the program needs ", BytesText(report.device_bytes()),
      rank.empty() ? absl::StrCat(" per device; ", report.cluster(), " has ") : absl::StrCat(" for ", rank),
      BytesText(report.capacity_bytes())));
}

}  // namespace weft
