// Kind and speed of the device of each rank.
#ifndef WEFT_SIMULATOR_PROGRAM_DEVICE_CLASSES_H_
#define WEFT_SIMULATOR_PROGRAM_DEVICE_CLASSES_H_

#include <cstdint>
#include <vector>

#include "proto/cluster.pb.h"
#include "simulator/network/placement.h"

namespace weft::sim {

struct DeviceClasses {
  // The devices, among Cluster.device and other_devices, that at least one rank is on, in the order of their first
  // ranks.
  std::vector<const Device*> kinds;
  // Index in `kinds` for each rank; empty = all ranks are on kind 0.
  std::vector<int32_t> kind_of_rank;
  // Speed of each rank's device in millionths of its kind's speed (rule P12); empty = all at full speed.
  std::vector<int64_t> speed_of_rank;

  int32_t KindOf(int64_t rank) const { return kind_of_rank.empty() ? 0 : kind_of_rank[rank]; }
  const Device& DeviceOf(int64_t rank) const { return *kinds[KindOf(rank)]; }
};

DeviceClasses FindDeviceClasses(const RankPlacement& placement);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_DEVICE_CLASSES_H_
