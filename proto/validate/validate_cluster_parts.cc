#include "proto/validate/validate_cluster_parts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "proto/validate/field_check.h"
#include "proto/validate/validate_device.h"

namespace weft {
namespace {

using Numbers = google::protobuf::RepeatedField<int64_t>;

// Checks that all numbers of a list are in 0..count-1 and that no two are equal. `what` names the things that are
// counted.
absl::Status CheckNumbers(const std::string& path, const Numbers& numbers, int64_t count, absl::string_view what) {
  std::set<int64_t> seen;
  for (int i = 0; i < numbers.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    if (numbers[i] < 0 || numbers[i] >= count) {
      return BadField(at, numbers[i],
                      count > 0 ? absl::StrCat("at least 0 and at most ", count - 1, ": ", what, " = ", count)
                                : absl::StrCat("left out: ", what, " = ", count));
    }
    if (!seen.insert(numbers[i]).second) {
      return absl::InvalidArgumentError(absl::StrCat(at, " = ", numbers[i], " is listed twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFraction(const std::string& path, double fraction) {
  if (fraction > 0 && fraction <= 1) return absl::OkStatus();
  return BadField(path, fraction, "greater than 0 and at most 1");
}

absl::Status CheckUpToOne(const std::string& path, double value) {
  return value >= 0 && value <= 1 ? absl::OkStatus() : BadField(path, value, "at least 0 and at most 1");
}

// Refuses a figure that only other kinds of fabric use.
absl::Status CheckUnused(const std::string& path, double value, FabricKind kind) {
  if (value == 0) return absl::OkStatus();
  return BadField(path, value, absl::StrCat("0: a fabric of kind ", FabricKind_Name(kind), " has no such figure"));
}

absl::Status ValidateTorus(const Cluster& cluster) {
  constexpr int kMaxDimensions = 16;
  const Numbers& torus = cluster.fabric().torus();
  if (torus.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.fabric.torus is missing; it must list the nodes along each dimension, whose product is ",
                     cluster.nodes()));
  }
  if (torus.size() > kMaxDimensions) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.fabric.torus has ", torus.size(), " dimensions; at most ",
                                                   kMaxDimensions, " are allowed"));
  }
  int64_t product = 1;
  for (int i = 0; i < torus.size(); ++i) {
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat("cluster.fabric.torus[", i, "]"), torus[i], 1, cluster.nodes()));
    // Both factors are below 2^31, so the product does not overflow.
    if (product <= cluster.nodes()) product *= torus[i];
  }
  if (product == cluster.nodes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cluster.fabric.torus = ", absl::StrJoin(torus, " x "),
                                                 " must multiply to the nodes of the cluster, ", cluster.nodes()));
}

}  // namespace

absl::Status ValidateLink(const std::string& path, const Link& link) {
  WEFT_RETURN_IF_ERROR(CheckPositive(path + ".bytes_per_second", link.bytes_per_second()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".latency_seconds", link.latency_seconds()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".overhead_seconds", link.overhead_seconds()));
  if (LinkKind_IsValid(link.kind())) return absl::OkStatus();
  return BadField(path + ".kind", static_cast<int>(link.kind()), "NVLINK, PCIE or NETWORK");
}

absl::Status ValidateNodeLinks(const Cluster& cluster) {
  // The most devices of a node if every pair of devices has its own link.
  constexpr int64_t kMaxAllPairs = 256;
  const NodeLinks& links = cluster.node_links();
  const std::string path = "cluster.node_links";
  const int64_t devices = cluster.devices_per_node();
  if (links.all_pairs() && devices > kMaxAllPairs) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".all_pairs = true is not allowed with ", devices,
                                                   " devices per node; allowed: at most ", kMaxAllPairs));
  }
  if (links.all_pairs() && links.switch_reduces()) {
    return absl::InvalidArgumentError(path +
                                      ".switch_reduces = true is not allowed with all_pairs: there is no switch");
  }
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int i = 0; i < links.direct_size(); ++i) {
    const DirectLink& direct = links.direct(i);
    const std::string row = absl::StrCat(path, ".direct[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckWithin(row + ".first", direct.first(), 0, devices - 1));
    WEFT_RETURN_IF_ERROR(CheckWithin(row + ".second", direct.second(), 0, devices - 1));
    if (direct.first() == direct.second()) {
      return BadField(row + ".second", direct.second(), "different from first");
    }
    if (!pairs.insert(std::minmax(direct.first(), direct.second())).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(row, " links devices ", direct.first(), " and ", direct.second(),
                       ", but another row links them too; a link counts in both directions"));
    }
    WEFT_RETURN_IF_ERROR(ValidateLink(row + ".link", direct.link()));
  }
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".devices_per_bridge", links.devices_per_bridge(), 0, devices));
  if (links.devices_per_bridge() == 0 && links.has_bridge()) {
    return absl::InvalidArgumentError(path + ".devices_per_bridge is missing; it is required with a bridge");
  }
  if (links.devices_per_bridge() > 0 && !links.has_bridge()) {
    return absl::InvalidArgumentError(path + ".bridge is missing; it is required with devices_per_bridge");
  }
  return links.has_bridge() ? ValidateLink(path + ".bridge", links.bridge()) : absl::OkStatus();
}

absl::Status ValidateFabric(const Cluster& cluster) {
  // The most interfaces of one leaf switch or group, so that the traffic from below can be counted.
  constexpr int64_t kMaxInterfaces = int64_t{1} << 40;
  const Fabric& fabric = cluster.fabric();
  const std::string path = "cluster.fabric";
  if (!FabricKind_IsValid(fabric.kind())) {
    return BadField(path + ".kind", static_cast<int>(fabric.kind()),
                    "NON_BLOCKING, FAT_TREE, RAIL_OPTIMISED, DRAGONFLY or TORUS");
  }
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".nodes_per_switch", fabric.nodes_per_switch(), 0,
                                   kMaxInterfaces / std::max<int64_t>(cluster.nics_per_node(), 1)));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".oversubscription", fabric.oversubscription()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".hop_latency_seconds", fabric.hop_latency_seconds()));
  if (!SwitchReduction_IsValid(fabric.reduces())) {
    return BadField(path + ".reduces", static_cast<int>(fabric.reduces()),
                    "NO_SWITCHES, LEAF_SWITCHES or ALL_SWITCHES");
  }
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".reduce_latency_seconds", fabric.reduce_latency_seconds()));
  if (fabric.reduces() != NO_SWITCHES && (fabric.kind() == DRAGONFLY || fabric.kind() == TORUS)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ".reduces = ", SwitchReduction_Name(fabric.reduces()), " must be NO_SWITCHES in a fabric of kind ",
        FabricKind_Name(fabric.kind()), ": only a tree has switches above all members that can sum"));
  }
  if (fabric.reduces() == NO_SWITCHES && fabric.reduce_latency_seconds() > 0) {
    return BadField(path + ".reduce_latency_seconds", fabric.reduce_latency_seconds(),
                    "0 if no switch of the fabric sums (cluster.fabric.reduces = NO_SWITCHES)");
  }
  if (fabric.kind() == NON_BLOCKING) {
    WEFT_RETURN_IF_ERROR(CheckUnused(path + ".hop_latency_seconds", fabric.hop_latency_seconds(), fabric.kind()));
  }
  if (fabric.kind() == NON_BLOCKING || fabric.kind() == TORUS) {
    WEFT_RETURN_IF_ERROR(
        CheckUnused(path + ".nodes_per_switch", static_cast<double>(fabric.nodes_per_switch()), fabric.kind()));
    WEFT_RETURN_IF_ERROR(CheckUnused(path + ".oversubscription", fabric.oversubscription(), fabric.kind()));
  } else if (fabric.nodes_per_switch() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   ".nodes_per_switch is missing; it is required for a fabric of ",
                                                   "kind ", FabricKind_Name(fabric.kind())));
  }
  if (fabric.kind() == TORUS) return ValidateTorus(cluster);
  if (fabric.torus().empty()) return absl::OkStatus();
  return BadField(path + ".torus", absl::StrCat("[", absl::StrJoin(fabric.torus(), ", "), "]"),
                  absl::StrCat("left out: a fabric of kind ", FabricKind_Name(fabric.kind()), " is not a torus"));
}

absl::Status ValidateOthers(const Cluster& cluster) {
  constexpr double kMaxSpeed = 1e6;
  for (int i = 0; i < cluster.other_devices_size(); ++i) {
    const OtherDevices& row = cluster.other_devices(i);
    const std::string path = absl::StrCat("cluster.other_devices[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckNumbers(path + ".nodes", row.nodes(), cluster.nodes(), "cluster.nodes"));
    WEFT_RETURN_IF_ERROR(
        CheckNumbers(path + ".devices", row.devices(), cluster.devices_per_node(), "cluster.devices_per_node"));
    if (row.has_device()) WEFT_RETURN_IF_ERROR(ValidateDevice(path + ".device", row.device()));
    // Speeds are stored in millionths, which limits their range.
    if (row.speed() != 0 && !(row.speed() >= 1 / kMaxSpeed && row.speed() <= kMaxSpeed)) {
      return BadField(path + ".speed", row.speed(), "at least 1e-06 and at most 1e+06");
    }
  }
  for (int i = 0; i < cluster.other_interfaces_size(); ++i) {
    const OtherInterfaces& row = cluster.other_interfaces(i);
    const std::string path = absl::StrCat("cluster.other_interfaces[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckNumbers(path + ".nodes", row.nodes(), cluster.nodes(), "cluster.nodes"));
    WEFT_RETURN_IF_ERROR(
        CheckNumbers(path + ".interfaces", row.interfaces(), cluster.nics_per_node(), "cluster.nics_per_node"));
    if (!row.down()) {
      WEFT_RETURN_IF_ERROR(CheckFraction(path + ".fraction", row.fraction()));
    } else if (row.fraction() != 0) {
      return BadField(path + ".fraction", row.fraction(), "left out if down is true");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePlacement(const Cluster& cluster) {
  const Placement& placement = cluster.placement();
  const std::string path = "cluster.placement";
  WEFT_RETURN_IF_ERROR(CheckNumbers(path + ".nodes", placement.nodes(), cluster.nodes(), "cluster.nodes"));
  WEFT_RETURN_IF_ERROR(
      CheckNumbers(path + ".devices", placement.devices(), cluster.devices_per_node(), "cluster.devices_per_node"));
  WEFT_RETURN_IF_ERROR(CheckNumbers(path + ".devices_of_ranks", placement.devices_of_ranks(),
                                    cluster.nodes() * cluster.devices_per_node(),
                                    "cluster.nodes * cluster.devices_per_node"));
  if (placement.devices_of_ranks().empty() || (placement.nodes().empty() && placement.devices().empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".", placement.nodes().empty() ? "devices" : "nodes",
                   " must be empty with devices_of_ranks, which states the device of every rank"));
}

absl::Status ValidateNoise(const Noise& noise) {
  const std::string path = "cluster.noise";
  WEFT_RETURN_IF_ERROR(CheckProbability(path + ".device_speed_deviation", noise.device_speed_deviation()));
  WEFT_RETURN_IF_ERROR(CheckProbability(path + ".step_deviation", noise.step_deviation()));
  WEFT_RETURN_IF_ERROR(CheckUpToOne(path + ".straggler_probability", noise.straggler_probability()));
  WEFT_RETURN_IF_ERROR(CheckUpToOne(path + ".slow_interface_probability", noise.slow_interface_probability()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".straggler_slowdown", noise.straggler_slowdown()));
  if (noise.straggler_slowdown() < 1 && (noise.straggler_probability() > 0 || noise.straggler_slowdown() > 0)) {
    return BadField(path + ".straggler_slowdown", noise.straggler_slowdown(), "at least 1");
  }
  if (noise.slow_interface_probability() > 0 || noise.slow_interface_fraction() != 0) {
    return CheckFraction(path + ".slow_interface_fraction", noise.slow_interface_fraction());
  }
  return absl::OkStatus();
}

absl::Status ValidateReliability(const Cluster& cluster) {
  const Reliability& reliability = cluster.reliability();
  const std::string path = "cluster.reliability";
  WEFT_RETURN_IF_ERROR(CheckNotNegative("cluster.dollars_per_device_hour", cluster.dollars_per_device_hour()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative("cluster.watts_per_device", cluster.watts_per_device()));
  if (!cluster.has_reliability()) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".failures_per_device_year", reliability.failures_per_device_year()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".failures_per_node_year", reliability.failures_per_node_year()));
  if (reliability.failures_per_device_year() + reliability.failures_per_node_year() == 0) {
    return BadField(path + ".failures_per_device_year", 0, "greater than 0 if failures_per_node_year is 0");
  }
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".restart_seconds", reliability.restart_seconds()));
  WEFT_RETURN_IF_ERROR(CheckPositive(path + ".checkpoint_bytes_per_second", reliability.checkpoint_bytes_per_second()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".background_stop_seconds", reliability.background_stop_seconds()));
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".spare_nodes", reliability.spare_nodes(), 0, cluster.nodes()));
  if (reliability.has_spare_nodes()) return CheckPositive(path + ".repair_seconds", reliability.repair_seconds());
  if (reliability.repair_seconds() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(path + ".spare_nodes is missing; it is required with repair_seconds");
}

}  // namespace weft
