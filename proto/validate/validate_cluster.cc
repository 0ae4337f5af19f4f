#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "proto/validate/field_check.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_cluster_parts.h"
#include "proto/validate/validate_device.h"

namespace weft {
namespace {

absl::Status Required(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("cluster.", field, " is missing; it is required for ", why));
}

}  // namespace

absl::Status Validate(const Cluster& cluster) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMaxInterfaces = 4096;
  WEFT_RETURN_IF_ERROR(CheckName("cluster.name", cluster.name()));
  if (!cluster.has_device()) return Required("device", "every cluster");
  WEFT_RETURN_IF_ERROR(ValidateDevice("cluster.device", cluster.device()));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.nodes", cluster.nodes(), 1, kMaxInt32));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.devices_per_node", cluster.devices_per_node(), 1, kMaxInt32));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.nodes * cluster.devices_per_node",
                                   cluster.nodes() * cluster.devices_per_node(), 1, kMaxInt32));
  if (cluster.devices_per_node() > 1 && !cluster.has_intra_node()) {
    return Required("intra_node", "nodes of several devices");
  }
  if (cluster.has_intra_node()) WEFT_RETURN_IF_ERROR(ValidateLink("cluster.intra_node", cluster.intra_node()));
  if (cluster.nodes() > 1 && !cluster.has_inter_node()) return Required("inter_node", "several nodes");
  if (cluster.has_inter_node()) WEFT_RETURN_IF_ERROR(ValidateLink("cluster.inter_node", cluster.inter_node()));
  WEFT_RETURN_IF_ERROR(
      CheckWithin("cluster.nics_per_node", cluster.nics_per_node(), cluster.nodes() > 1 ? 1 : 0, kMaxInterfaces));
  if (cluster.has_host()) WEFT_RETURN_IF_ERROR(ValidateLink("cluster.host", cluster.host()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("cluster.host_memory_bytes", cluster.host_memory_bytes(), 0));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.compute_slots_per_node", cluster.compute_slots_per_node(), 0, kMaxInt32));
  WEFT_RETURN_IF_ERROR(CheckNotNegative("cluster.compute_turn_seconds", cluster.compute_turn_seconds()));
  WEFT_RETURN_IF_ERROR(ValidateNodeLinks(cluster));
  WEFT_RETURN_IF_ERROR(ValidateFabric(cluster));
  WEFT_RETURN_IF_ERROR(ValidateOthers(cluster));
  WEFT_RETURN_IF_ERROR(ValidatePlacement(cluster));
  WEFT_RETURN_IF_ERROR(ValidateNoise(cluster.noise()));
  return ValidateReliability(cluster);
}

}  // namespace weft
