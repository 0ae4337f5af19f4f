#include "compiler/rank_kinds.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/network/placement.h"

namespace weft {
namespace {

std::string FiguresOf(const Device& device) {
  Device figures = device;
  figures.clear_name();
  return figures.SerializeAsString();
}

DeviceKind KindOf(const Device& device, int64_t speed) {
  return {device, speed,
          device.memory_bytes() > 0 ? device.memory_bytes() - device.reserved_bytes()
                                    : std::numeric_limits<int64_t>::max()};
}

}  // namespace

bool RankKinds::AllAreLike(const Device& device) const {
  return kinds.size() == 1 && kinds[0].speed == sim::kFullSpeed && FiguresOf(kinds[0].device) == FiguresOf(device);
}

absl::StatusOr<RankKinds> KindsOfRanks(int64_t ranks, const Cluster& cluster) {
  RankKinds found;
  if (cluster.other_devices_size() == 0) {
    found.kinds.push_back(KindOf(cluster.device(), sim::kFullSpeed));
    found.of_rank.resize(ranks);
    return found;
  }
  WEFT_ASSIGN_OR_RETURN(const sim::RankPlacement placement, sim::RankPlacement::Make(ranks, cluster));
  found.of_rank.reserve(ranks);
  std::map<std::pair<std::string, int64_t>, int32_t> known;
  // Rows of other_devices and speeds that were seen, so that figures are compared once for each.
  std::map<std::pair<int32_t, int64_t>, int32_t> rows;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::pair<int32_t, int64_t> row = placement.KindAndSpeed(rank);
    const auto [at, is_new_row] = rows.try_emplace(row, 0);
    if (is_new_row) {
      const Device& device = *placement.kinds()[row.first];
      const auto [kind, is_new] =
          known.try_emplace({FiguresOf(device), row.second}, static_cast<int32_t>(found.kinds.size()));
      if (is_new) found.kinds.push_back(KindOf(device, row.second));
      at->second = kind->second;
    }
    found.of_rank.push_back(at->second);
  }
  return found;
}

Cluster ClusterOfKind(const Cluster& cluster, const DeviceKind& kind) {
  Cluster alike = cluster;
  // The last row that names a device applies, and a row without nodes names all. The other devices stay in rows before
  // it: the network model "nccl" reads them.
  *alike.add_other_devices()->mutable_device() = cluster.device();
  *alike.mutable_device() = kind.device;
  OtherDevices* all = alike.add_other_devices();
  *all->mutable_device() = kind.device;
  all->set_speed(static_cast<double>(kind.speed) / static_cast<double>(sim::kFullSpeed));
  return alike;
}

std::vector<std::vector<int32_t>> KindsOfPipelines(const RankKinds& kinds, const Mesh& mesh) {
  int64_t stride = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name() == "pipe") break;
    stride *= axis.size();
  }
  const int64_t pipe = AxisSize(mesh, "pipe");
  const auto ranks = static_cast<int64_t>(kinds.of_rank.size());
  std::set<std::vector<int32_t>> pipelines;
  std::vector<int32_t> pipeline(pipe);
  for (int64_t outer = 0; outer < ranks; outer += stride * pipe) {
    for (int64_t first = outer; first < std::min(ranks, outer + stride); ++first) {
      for (int64_t p = 0; p < pipe; ++p) pipeline[p] = kinds.of_rank[first + p * stride];
      pipelines.insert(pipeline);
    }
  }
  return {pipelines.begin(), pipelines.end()};
}

std::vector<std::vector<int32_t>> KindsOfStages(const std::vector<std::vector<int32_t>>& pipelines,
                                                const std::vector<std::vector<int>>& placement) {
  std::vector<std::vector<int32_t>> of_stage;
  for (size_t stage = 0; !placement.empty() && stage < placement[0].size(); ++stage) {
    std::set<int32_t> kinds;
    for (const std::vector<int>& lane : placement) {
      for (const std::vector<int32_t>& pipeline : pipelines) kinds.insert(pipeline[lane[stage]]);
    }
    of_stage.emplace_back(kinds.begin(), kinds.end());
  }
  return of_stage;
}

std::vector<int64_t> UsableOfPipeRanks(const RankKinds& kinds, const std::vector<std::vector<int32_t>>& pipelines) {
  std::vector<int64_t> usable(pipelines.empty() ? 0 : pipelines[0].size(), std::numeric_limits<int64_t>::max());
  for (const std::vector<int32_t>& pipeline : pipelines) {
    for (size_t p = 0; p < pipeline.size(); ++p) usable[p] = std::min(usable[p], kinds.kinds[pipeline[p]].usable_bytes);
  }
  return usable;
}

std::vector<int64_t> RoomOfStages(const std::vector<int64_t>& usable_of_pipe_rank,
                                  const std::vector<std::vector<int>>& placement) {
  std::vector<int64_t> stages(usable_of_pipe_rank.size());
  for (const std::vector<int>& lane : placement) {
    for (const int rank : lane) ++stages[rank];
  }
  std::vector<int64_t> room(placement.empty() ? 0 : placement[0].size(), std::numeric_limits<int64_t>::max());
  for (const std::vector<int>& lane : placement) {
    for (size_t s = 0; s < lane.size(); ++s)
      room[s] = std::min(room[s], usable_of_pipe_rank[lane[s]] / stages[lane[s]]);
  }
  return room;
}

}  // namespace weft
