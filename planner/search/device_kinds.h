// The kinds of devices that the plans of a search run on.
#ifndef WEFT_PLANNER_SEARCH_DEVICE_KINDS_H_
#define WEFT_PLANNER_SEARCH_DEVICE_KINDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/rank_kinds.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// Where a mesh puts the kinds.
struct MeshKinds {
  // The kinds of each pipeline by pipe rank (KindsOfPipelines).
  std::vector<std::vector<int32_t>> pipelines;
  // By pipe rank: bytes that a plan may use on each device, the least of its ranks.
  std::vector<int64_t> capacities;
};

// May be used by several threads.
class DeviceKinds {
 public:
  // The kinds of `devices` devices of `cluster`, which must be valid and outlive the object; its devices have the
  // memory that plans may use. InvalidArgument if the cluster has fewer devices, or more than kMaxKinds kinds.
  static absl::StatusOr<std::unique_ptr<DeviceKinds>> Make(int64_t devices, const Cluster& cluster);

  const std::vector<DeviceKind>& kinds() const { return kinds_.kinds; }
  // All devices are like cluster.device, at full speed.
  bool all_are_alike() const { return all_are_alike_; }
  // A cluster with devices of one kind alone, for profiles.
  const Cluster& ClusterOf(size_t kind) const { return clusters_[kind]; }
  // Bytes that a plan may use on a device with the most memory.
  int64_t most_bytes() const;

  // `mesh` has as many ranks as there are devices.
  const MeshKinds& Of(const Mesh& mesh) const;

 private:
  RankKinds kinds_;
  bool all_are_alike_ = false;
  std::vector<Cluster> clusters_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, MeshKinds> of_mesh_;
};

// Each kind needs profiles of its own. Clusters whose devices all have speeds of their own would need too many.
inline constexpr int kMaxKinds = 8;

// Bytes that a plan may use on the devices with the least and with the most memory, among the first `devices` of the
// cluster. `limit`: no more than so many on any device; 0 = no limit.
struct CapacityRange {
  int64_t least = 0;
  int64_t most = 0;
};
CapacityRange CapacitiesOfDevices(const Cluster& cluster, int64_t devices, int64_t limit);

// The cluster with `bytes` to use on every device.
Cluster WithMemory(const Cluster& cluster, int64_t bytes);

// The cluster with no more than `bytes` (0 = all) to use on any device.
Cluster WithMemoryLimit(const Cluster& cluster, int64_t bytes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_DEVICE_KINDS_H_
