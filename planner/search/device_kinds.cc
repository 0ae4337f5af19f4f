#include "planner/search/device_kinds.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "planner/evaluate.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

std::vector<Device*> DevicesIn(Cluster* cluster) {
  std::vector<Device*> devices = {cluster->mutable_device()};
  for (OtherDevices& other : *cluster->mutable_other_devices()) {
    if (other.has_device()) devices.push_back(other.mutable_device());
  }
  return devices;
}

void SetUsable(int64_t bytes, Device* device) { device->set_memory_bytes(bytes + device->reserved_bytes()); }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceKinds>> DeviceKinds::Make(int64_t devices, const Cluster& cluster) {
  auto made = std::make_unique<DeviceKinds>();
  WEFT_ASSIGN_OR_RETURN(made->kinds_, KindsOfRanks(devices, cluster));
  if (made->kinds().size() > kMaxKinds) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.other_devices: the ", devices, " devices have ", made->kinds().size(),
                     " different kinds and speeds; weft plan searches at most ", kMaxKinds));
  }
  made->all_are_alike_ = made->kinds_.AllAreLike(cluster.device());
  for (const DeviceKind& kind : made->kinds()) made->clusters_.push_back(ClusterOfKind(cluster, kind));
  return made;
}

int64_t DeviceKinds::most_bytes() const {
  int64_t most = 0;
  for (const DeviceKind& kind : kinds()) most = std::max(most, kind.usable_bytes);
  return most;
}

const MeshKinds& DeviceKinds::Of(const Mesh& mesh) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, is_new] = of_mesh_.try_emplace(mesh.SerializeAsString());
  if (is_new) {
    found->second.pipelines = KindsOfPipelines(kinds_, mesh);
    found->second.capacities = UsableOfPipeRanks(kinds_, found->second.pipelines);
  }
  return found->second;
}

CapacityRange CapacitiesOfDevices(const Cluster& cluster, int64_t devices, int64_t limit) {
  const Cluster limited = WithMemoryLimit(cluster, limit);
  CapacityRange range = {UsableBytes(limited.device()), UsableBytes(limited.device())};
  const absl::StatusOr<RankKinds> kinds = KindsOfRanks(devices, limited);
  if (!kinds.ok()) return range;
  range = {kinds->kinds[0].usable_bytes, kinds->kinds[0].usable_bytes};
  for (const DeviceKind& kind : kinds->kinds) {
    range.least = std::min(range.least, kind.usable_bytes);
    range.most = std::max(range.most, kind.usable_bytes);
  }
  return range;
}

Cluster WithMemory(const Cluster& cluster, int64_t bytes) {
  Cluster changed = cluster;
  for (Device* device : DevicesIn(&changed)) SetUsable(bytes, device);
  return changed;
}

Cluster WithMemoryLimit(const Cluster& cluster, int64_t bytes) {
  Cluster limited = cluster;
  for (Device* device : DevicesIn(&limited)) {
    if (bytes > 0 && bytes < UsableBytes(*device)) SetUsable(bytes, device);
  }
  return limited;
}

}  // namespace weft::planner
