// Devices that are slower or faster than their kind (rule P12).
#ifndef WEFT_SIMULATOR_ENGINE_DEVICE_SPEED_H_
#define WEFT_SIMULATOR_ENGINE_DEVICE_SPEED_H_

#include <algorithm>
#include <cstdint>

#include "simulator/network/placement.h"

namespace weft::sim {

// Returns the cost, at `speed` in millionths of full speed, of work that costs `cost` at full speed: ceil(cost * 10^6 /
// speed), at most 2^62.
inline int64_t AtSpeed(int64_t cost, int64_t speed) {
  constexpr __int128 kMax = __int128{1} << 62;
  const __int128 divisor = std::max<int64_t>(speed, 1);
  return static_cast<int64_t>(std::min(kMax, (static_cast<__int128>(cost) * kFullSpeed + divisor - 1) / divisor));
}

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_DEVICE_SPEED_H_
