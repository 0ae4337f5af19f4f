#include "planner/search/mixed_bounds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/rank_kinds.h"
#include "simulator/network/placement.h"

namespace weft::planner {
namespace {

const LayerCosts& LayerOf(const RunCosts& run) { return run.run.layers > 1 ? run.further : run.first; }

double MemorySpeed(const DeviceKind& kind) {
  return kind.device.memory_bytes_per_second() * static_cast<double>(kind.speed) / sim::kFullSpeed;
}

}  // namespace

std::vector<int64_t> LayerTimes(const BlockProfile& profile) {
  std::vector<int64_t> times;
  for (const RunCosts& run : profile.runs) {
    const LayerCosts& layer = LayerOf(run);
    times.insert(times.end(), run.run.layers, layer.forward + layer.backward);
  }
  return times;
}

std::vector<int32_t> CutByProfiles(const ProfilesOfKinds& of_kinds, const MeshKinds& mesh,
                                   const std::vector<std::vector<int>>& placement, const Plan& plan) {
  MixedStages mixed{.kinds = {}, .kinds_of_stage = KindsOfStages(mesh.pipelines, placement)};
  for (const ProfileStore::Profiles& kind : of_kinds) mixed.kinds.push_back({LayerTimes(kind.of_cut)});
  std::vector<int64_t> before = {0};
  for (const RunCosts& run : of_kinds[0].of_cut.runs) {
    for (int32_t i = 0; i < run.run.layers; ++i) before.push_back(before.back() + StateBytes(plan, LayerOf(run)));
  }
  const std::vector<int64_t> room = RoomOfStages(mesh.capacities, placement);
  mixed.holds = [&](int32_t stage, int64_t from, int64_t to) { return before[to] - before[from] <= room[stage]; };
  return MixedPartition(mixed).value_or(std::vector<int32_t>());
}

std::string KeyOfMixedCut(const MeshKinds& mesh, const std::vector<std::vector<int>>& placement, const Plan& plan) {
  std::string key =
      absl::StrCat(" zero ", plan.zero().stage(), " ", ReplicasThatShare(plan), " ", plan.offload().optimizer(),
                   " room ", absl::StrJoin(RoomOfStages(mesh.capacities, placement), ","));
  for (const std::vector<int32_t>& kinds : KindsOfStages(mesh.pipelines, placement)) {
    absl::StrAppend(&key, ";", absl::StrJoin(kinds, ","));
  }
  return key;
}

std::vector<RankDevice> DevicesOf(absl::Span<const int32_t> pipeline, absl::Span<const int64_t> capacities,
                                  const DeviceKinds& kinds, const ProfilesOfKinds& of_kinds) {
  std::vector<RankDevice> devices;
  for (size_t p = 0; p < pipeline.size(); ++p) {
    const int32_t kind = pipeline[p];
    devices.push_back({.profile = &of_kinds[kind].profile,
                       .recomputed = of_kinds[kind].recomputed,
                       .memory_bytes_per_second = MemorySpeed(kinds.kinds()[kind]),
                       .capacity = capacities[p]});
  }
  return devices;
}

PlanBound BoundOfPipelines(const std::vector<BoundInputs>& pipelines) {
  PlanBound bound = BoundOf(pipelines.front());
  for (size_t i = 1; i < pipelines.size(); ++i) {
    const PlanBound other = BoundOf(pipelines[i]);
    bound.least_seconds = std::max(bound.least_seconds, other.least_seconds);
    bound.estimated_seconds = std::max(bound.estimated_seconds, other.estimated_seconds);
    bound.least_bytes = std::max(bound.least_bytes, other.least_bytes);
    bound.fits &= other.fits;
    for (size_t p = 0; p < bound.recomputed_layers.size(); ++p) {
      bound.recomputed_layers[p] = std::max(bound.recomputed_layers[p], other.recomputed_layers[p]);
      bound.bytes_of_layer[p] = std::max(bound.bytes_of_layer[p], other.bytes_of_layer[p]);
    }
  }
  return bound;
}

}  // namespace weft::planner
