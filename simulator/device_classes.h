// Ranks on devices of one kind and speed: their steps cost the same.
#ifndef WEFT_SIMULATOR_DEVICE_CLASSES_H_
#define WEFT_SIMULATOR_DEVICE_CLASSES_H_

#include <cstdint>
#include <vector>

#include "proto/cluster.pb.h"
#include "proto/units.h"
#include "simulator/network/placement.h"

namespace weft {

struct DeviceClass {
  // Of the cluster or of one of its other_devices.
  const Device* device = nullptr;
  // In millionths of what the kind does (rule P12).
  int64_t speed = kFullSpeed;
};

struct DeviceClasses {
  // In the order of their first ranks; at least one.
  std::vector<DeviceClass> classes;
  // Empty: all ranks are of class 0.
  std::vector<int32_t> of_rank;

  int32_t Of(int64_t rank) const { return of_rank.empty() ? 0 : of_rank[rank]; }
  const Device& DeviceOf(int64_t rank) const { return *classes[Of(rank)].device; }
};

DeviceClasses FindDeviceClasses(const RankPlacement& placement);

// What costs `cost` at full speed: ceil(cost / speed), at most 2^62.
Time AtSpeed(Time cost, int64_t speed);

}  // namespace weft

#endif  // WEFT_SIMULATOR_DEVICE_CLASSES_H_
