#include "simulator/program/device_classes.h"

#include <algorithm>
#include <map>

namespace weft::sim {

DeviceClasses FindDeviceClasses(const RankPlacement& placement) {
  DeviceClasses found;
  if (placement.all_alike() || placement.ranks() == 0) {
    found.kinds.push_back(placement.kinds().front());
    return found;
  }
  // Several rows of other_devices may have the same kind. Pointers serve as keys here; their order does not matter.
  std::map<const Device*, int32_t> known;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    const auto [kind, speed] = placement.KindAndSpeed(rank);
    const Device* device = placement.kinds()[kind];
    const auto [at, is_new] = known.try_emplace(device, static_cast<int32_t>(found.kinds.size()));
    if (is_new) found.kinds.push_back(device);
    found.kind_of_rank.push_back(at->second);
    found.speed_of_rank.push_back(speed);
  }
  if (found.kinds.size() == 1) found.kind_of_rank.clear();
  const auto full = [](int64_t speed) { return speed == kFullSpeed; };
  if (std::all_of(found.speed_of_rank.begin(), found.speed_of_rank.end(), full)) found.speed_of_rank.clear();
  return found;
}

}  // namespace weft::sim
