#include "simulator/noise.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/network/placement.h"

namespace weft::sim {
namespace {

// The purpose of a random draw. It is part of the key of the draw, after the number of the run.
enum DrawKind : uint64_t { kDeviceSpeed = 1, kStraggler = 2, kSlowInterfaces = 3, kStepJitter = 4 };

Draw DrawOfRun(int64_t seed, int64_t run, DrawKind kind) {
  return Draw(static_cast<uint64_t>(seed)).At(static_cast<uint64_t>(run)).At(kind);
}

absl::Status CheckRange(const char* field, double given, double least, double most) {
  // NaN fails both comparisons, so it is an error.
  if (given >= least && given <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cluster.noise.", field, " = ", given, " must be from ", least, " to ",
                                                 most, "; nearest valid: ", given > most ? most : least));
}

// Speeds are rounded to quarters of the standard deviation. A large job then has a few tens of classes of devices, not
// one for each rank, and the deviation grows by 1 / 384 of itself.
int64_t SpeedFactor(const Noise& noise, Draw draw) {
  const int64_t quarter =
      std::max<int64_t>(1, static_cast<int64_t>(noise.device_speed_deviation() * (FactorDraw::kOne / 4)));
  const int64_t off = FactorDraw(noise.device_speed_deviation())(draw) - FactorDraw::kOne;
  const int64_t quarters = (std::abs(off) + quarter / 2) / quarter * (off < 0 ? -1 : 1);
  return std::max(FactorDraw::kOne / 8, FactorDraw::kOne + quarters * quarter);
}

void AddDeviceRows(const Cluster& cluster, const RankPlacement& placement, int64_t seed, int64_t run, Cluster& drawn) {
  const Noise& noise = cluster.noise();
  // Figures: (kind, speed relative to the kind). `nodes_of` has, for each pair of figures and device number in the
  // node, the nodes with such a device.
  using Figures = std::pair<int32_t, double>;
  std::map<std::pair<Figures, int64_t>, std::vector<int64_t>> nodes_of;
  for (const int64_t node : placement.nodes()) {
    const bool straggles =
        DrawOfRun(seed, run, kStraggler).At(static_cast<uint64_t>(node)).Happens(noise.straggler_probability());
    if (!straggles && noise.device_speed_deviation() == 0) continue;
    for (const int64_t rank : placement.RanksOf(node)) {
      const auto [kind, stated] = placement.KindAndSpeed(rank);
      const int64_t device = placement.DeviceOf(rank);
      const int64_t factor = SpeedFactor(noise, DrawOfRun(seed, run, kDeviceSpeed).At(static_cast<uint64_t>(device)));
      double speed = static_cast<double>(stated) / static_cast<double>(kFullSpeed) * static_cast<double>(factor) /
                     static_cast<double>(FactorDraw::kOne);
      if (straggles) speed /= noise.straggler_slowdown();
      nodes_of[{{kind, speed}, device % placement.devices_per_node()}].push_back(node);
    }
  }
  // Devices with the same figures on the same nodes share a row.
  std::map<std::pair<Figures, std::vector<int64_t>>, std::vector<int64_t>> devices_of;
  for (const auto& [what, nodes] : nodes_of) devices_of[{what.first, nodes}].push_back(what.second);
  for (const auto& [what, devices] : devices_of) {
    const auto& [figures, nodes] = what;
    OtherDevices& row = *drawn.add_other_devices();
    row.mutable_nodes()->Add(nodes.begin(), nodes.end());
    row.mutable_devices()->Add(devices.begin(), devices.end());
    if (figures.first > 0) *row.mutable_device() = *placement.kinds()[figures.first];
    row.set_speed(figures.second);
  }
}

// Returns the last row of other_interfaces that applies to an interface of a node, or null. A row with an empty list
// applies to all nodes or interfaces.
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
  // Nodes by (fraction of the bandwidth that is left, interface); interface -1 = all.
  std::map<std::pair<double, int64_t>, std::vector<int64_t>> nodes_of;
  for (const int64_t node : placement.nodes()) {
    const Draw draw = DrawOfRun(seed, run, kSlowInterfaces).At(static_cast<uint64_t>(node));
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
  const Noise& noise = cluster.noise();
  if (noise.device_speed_deviation() == 0 && noise.step_deviation() == 0 && noise.straggler_probability() == 0 &&
      noise.slow_interface_probability() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster '", cluster.name(),
        "' has no noise, so all runs would be the same; set cluster.noise, e.g. noise { step_deviation: 0.01 }"));
  }
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
  return Jitter(DrawOfRun(seed, run, kStepJitter), noise.step_deviation());
}

NoiseReport SummarizeRuns(std::vector<double> seconds, int64_t seed) {
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  // The ceil(percent / 100 x n)-th shortest time.
  const auto percentile = [&](size_t percent) { return seconds[(percent * n + 99) / 100 - 1]; };
  NoiseReport report;
  report.set_runs(static_cast<int32_t>(n));
  report.set_seed(seed);
  report.set_p10(percentile(10));
  report.set_p50(percentile(50));
  report.set_p90(percentile(90));
  double sum = 0;
  for (const double time : seconds) sum += time;
  // The rounded mean must stay within the range of the runs.
  report.set_mean(std::clamp(sum / static_cast<double>(n), seconds.front(), seconds.back()));
  return report;
}

}  // namespace weft::sim
