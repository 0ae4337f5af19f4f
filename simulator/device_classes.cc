#include "simulator/device_classes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {

DeviceClasses FindDeviceClasses(const RankPlacement& placement) {
  DeviceClasses found;
  if (placement.all_alike() || placement.ranks() == 0) {
    found.classes.push_back({placement.kinds().front(), kFullSpeed});
    return found;
  }
  // Rows of other_devices may repeat a kind. Pointers are keys here, never an order.
  std::map<std::pair<const Device*, int64_t>, int32_t> known;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    const auto [kind, speed] = placement.KindAndSpeed(rank);
    const Device* device = placement.kinds()[kind];
    const auto [at, is_new] = known.try_emplace({device, speed}, static_cast<int32_t>(found.classes.size()));
    if (is_new) found.classes.push_back({device, speed});
    found.of_rank.push_back(at->second);
  }
  return found;
}

Time AtSpeed(Time cost, int64_t speed) {
  constexpr __int128 kMost = __int128{1} << 62;
  const __int128 divisor = std::max<int64_t>(speed, 1);
  return Time{
      static_cast<int64_t>(std::min(kMost, (static_cast<__int128>(cost.ps) * kFullSpeed + divisor - 1) / divisor))};
}

}  // namespace weft
