#include "simulator/noise.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "simulator/network/placement.h"

namespace weft {
namespace {

// What is drawn, as the first counter below the run.
enum DrawKind : uint64_t { kDeviceSpeed = 1, kStraggler = 2, kSlowInterfaces = 3, kStepJitter = 4 };

Draw OfRun(int64_t seed, int64_t run, DrawKind kind) {
  return Draw(static_cast<uint64_t>(seed)).At(static_cast<uint64_t>(run)).At(kind);
}

absl::Status CheckRange(const char* field, double given, double least, double most) {
  // Not a number is in no range.
  if (given >= least && given <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cluster.noise.", field, " = ", given, " must be from ", least, " to ",
                                                 most, "; nearest valid: ", given > most ? most : least));
}

// Devices of a node with the same new figures, by those; the nodes that have them.
void AddDeviceRows(const Cluster& cluster, const RankPlacement& placement, int64_t seed, int64_t run, Cluster& drawn) {
  const Noise& noise = cluster.noise();
  const FactorDraw factor(noise.device_speed_deviation());
  // By (kind, speed in 2^-30 of the kind's), the devices of each node.
  using Figures = std::pair<int32_t, double>;
  std::map<std::vector<std::pair<int64_t, Figures>>, std::vector<int64_t>> nodes_of;
  for (const int64_t node : placement.nodes()) {
    const bool straggles =
        OfRun(seed, run, kStraggler).At(static_cast<uint64_t>(node)).Happens(noise.straggler_probability());
    if (!straggles && noise.device_speed_deviation() == 0) continue;
    std::vector<std::pair<int64_t, Figures>> devices;
    for (const int64_t rank : placement.RanksOf(node)) {
      const auto [kind, speed] = placement.KindAndSpeed(rank);
      const int64_t device = placement.DeviceOf(rank);
      const int64_t drawn_factor = factor(OfRun(seed, run, kDeviceSpeed).At(static_cast<uint64_t>(device)));
      double now = static_cast<double>(speed) / static_cast<double>(kFullSpeed) * static_cast<double>(drawn_factor) /
                   static_cast<double>(FactorDraw::kOne);
      if (straggles) now /= noise.straggler_slowdown();
      devices.push_back({device % placement.devices_per_node(), {kind, now}});
    }
    std::sort(devices.begin(), devices.end());
    nodes_of[std::move(devices)].push_back(node);
  }
  for (const auto& [devices, nodes] : nodes_of) {
    std::map<Figures, std::vector<int64_t>> devices_of;
    for (const auto& [device, figures] : devices) devices_of[figures].push_back(device);
    for (const auto& [figures, members] : devices_of) {
      OtherDevices& row = *drawn.add_other_devices();
      row.mutable_nodes()->Add(nodes.begin(), nodes.end());
      row.mutable_devices()->Add(members.begin(), members.end());
      if (figures.first > 0) *row.mutable_device() = *placement.kinds()[figures.first];
      row.set_speed(figures.second);
    }
  }
}

// The last row that names an interface of a node, or null.
const OtherInterfaces* RowOf(const Cluster& cluster, int64_t node, int64_t interface) {
  const auto names = [](const google::protobuf::RepeatedField<int64_t>& list, int64_t number) {
    return list.empty() || std::find(list.begin(), list.end(), number) != list.end();
  };
  for (int i = cluster.other_interfaces_size() - 1; i >= 0; --i) {
    const OtherInterfaces& row = cluster.other_interfaces(i);
    if (names(row.nodes(), node) && names(row.interfaces(), interface)) return &row;
  }
  return nullptr;
}

void AddInterfaceRows(const Cluster& cluster, const RankPlacement& placement, int64_t seed, int64_t run,
                      Cluster& drawn) {
  const Noise& noise = cluster.noise();
  // By (fraction that is left, interface), the nodes.
  std::map<std::pair<double, int64_t>, std::vector<int64_t>> nodes_of;
  for (const int64_t node : placement.nodes()) {
    const Draw draw = OfRun(seed, run, kSlowInterfaces).At(static_cast<uint64_t>(node));
    if (!draw.Happens(noise.slow_interface_probability())) continue;
    if (cluster.other_interfaces_size() == 0) {
      nodes_of[{noise.slow_interface_fraction(), -1}].push_back(node);
      continue;
    }
    for (int64_t i = 0; i < cluster.nics_per_node(); ++i) {
      const OtherInterfaces* row = RowOf(cluster, node, i);
      if (row != nullptr && row->down()) continue;
      nodes_of[{noise.slow_interface_fraction() * (row == nullptr ? 1 : row->fraction()), i}].push_back(node);
    }
  }
  for (const auto& [what, nodes] : nodes_of) {
    OtherInterfaces& row = *drawn.add_other_interfaces();
    row.mutable_nodes()->Add(nodes.begin(), nodes.end());
    if (what.second >= 0) row.add_interfaces(what.second);
    row.set_fraction(what.first);
  }
}

}  // namespace

absl::Status CheckNoise(const Cluster& cluster) {
  if (!cluster.has_noise()) {
    return absl::InvalidArgumentError(absl::StrCat("cluster '", cluster.name(),
                                                   "' does not say how runs differ, so all of them would be the same; "
                                                   "state cluster.noise, e.g. noise { step_deviation: 0.01 }"));
  }
  const Noise& noise = cluster.noise();
  WEFT_RETURN_IF_ERROR(CheckRange("device_speed_deviation", noise.device_speed_deviation(), 0, 1));
  WEFT_RETURN_IF_ERROR(CheckRange("step_deviation", noise.step_deviation(), 0, 1));
  WEFT_RETURN_IF_ERROR(CheckRange("straggler_probability", noise.straggler_probability(), 0, 1));
  if (noise.straggler_probability() > 0) {
    WEFT_RETURN_IF_ERROR(CheckRange("straggler_slowdown", noise.straggler_slowdown(), 1, 1000));
  }
  WEFT_RETURN_IF_ERROR(CheckRange("slow_interface_probability", noise.slow_interface_probability(), 0, 1));
  if (noise.slow_interface_probability() > 0) {
    WEFT_RETURN_IF_ERROR(CheckRange("slow_interface_fraction", noise.slow_interface_fraction(), 0.001, 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<Cluster> DrawCluster(const Cluster& cluster, int64_t ranks, int64_t seed, int64_t run) {
  WEFT_ASSIGN_OR_RETURN(const RankPlacement placement, RankPlacement::Make(ranks, cluster));
  Cluster drawn = cluster;
  AddDeviceRows(cluster, placement, seed, run, drawn);
  AddInterfaceRows(cluster, placement, seed, run, drawn);
  drawn.clear_noise();
  return drawn;
}

Jitter DrawJitter(const Noise& noise, int64_t seed, int64_t run) {
  return Jitter(OfRun(seed, run, kStepJitter), noise.step_deviation());
}

NoiseReport SummarizeRuns(std::vector<double> seconds, int64_t seed) {
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  // ceil(percent / 100 x n)-th of them.
  const auto percentile = [&](size_t percent) { return seconds[(percent * n + 99) / 100 - 1]; };
  NoiseReport report;
  report.set_runs(static_cast<int32_t>(n));
  report.set_seed(seed);
  report.set_p10(percentile(10));
  report.set_p50(percentile(50));
  report.set_p90(percentile(90));
  double sum = 0;
  for (const double time : seconds) sum += time;
  // Rounding of the sum must not lead out of the runs' own range.
  report.set_mean(std::clamp(sum / static_cast<double>(n), seconds.front(), seconds.back()));
  return report;
}

}  // namespace weft
