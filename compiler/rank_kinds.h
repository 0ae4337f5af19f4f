// The kinds of devices that ranks are on, and which pipe ranks and stages they hold.
#ifndef WEFT_COMPILER_RANK_KINDS_H_
#define WEFT_COMPILER_RANK_KINDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace weft {

struct DeviceKind {
  Device device;
  // In millionths of full speed (rule P12).
  int64_t speed = 0;
  // Memory without the reserve; INT64_MAX if the device states none.
  int64_t usable_bytes = 0;
};

struct RankKinds {
  // Devices that differ in a figure or in their speed, in the order of their first ranks. Names do not count.
  std::vector<DeviceKind> kinds;
  // Index in `kinds` for each rank.
  std::vector<int32_t> of_rank;

  // True if all ranks are on devices like `cluster.device` at full speed.
  bool AllAreLike(const Device& device) const;
};

// The kinds of ranks 0..ranks-1 on `cluster`, which must be valid. If it has other devices, fails as
// RankPlacement::Make does.
absl::StatusOr<RankKinds> KindsOfRanks(int64_t ranks, const Cluster& cluster);

// The same cluster with every device of this kind. All links and what the network models know of them stay as they are.
Cluster ClusterOfKind(const Cluster& cluster, const DeviceKind& kind);

// A pipeline: the ranks that differ in nothing but their pipe coordinate. Returns the kinds of each pipeline by pipe
// rank, each different list once. `mesh` has as many ranks as `kinds`.
std::vector<std::vector<int32_t>> KindsOfPipelines(const RankKinds& kinds, const Mesh& mesh);

// The kinds of all ranks that hold each stage, ascending. placement[lane][stage] = pipe rank.
std::vector<std::vector<int32_t>> KindsOfStages(const std::vector<std::vector<int32_t>>& pipelines,
                                                const std::vector<std::vector<int>>& placement);

// The least usable memory among the ranks of each pipe rank.
std::vector<int64_t> UsableOfPipeRanks(const RankKinds& kinds, const std::vector<std::vector<int32_t>>& pipelines);

// Bytes for each stage: an equal share of the usable memory for every stage of its pipe rank, the least of its lanes.
std::vector<int64_t> RoomOfStages(const std::vector<int64_t>& usable_of_pipe_rank,
                                  const std::vector<std::vector<int>>& placement);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_KINDS_H_
