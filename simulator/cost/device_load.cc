#include "simulator/cost/device_load.h"

#include <algorithm>

namespace weft::sim {

RemainingDevice RemainingBeside(const Device& device, int collectives) {
  const CommunicationLoad& load = device.communication_load();
  RemainingDevice left;
  const int64_t multiprocessors = device.tiles().multiprocessors();
  left.multiprocessors = multiprocessors;
  if (multiprocessors > 0) {
    const int64_t taken = int64_t{collectives} * std::max(load.multiprocessors(), 0);
    left.multiprocessors = std::max((multiprocessors + 3) / 4, multiprocessors - taken);
    left.compute = static_cast<double>(left.multiprocessors) / static_cast<double>(multiprocessors);
  }
  if (device.memory_bytes_per_second() > 0 && load.memory_bytes_per_second() > 0) {
    left.memory = std::max(0.25, 1 - collectives * load.memory_bytes_per_second() / device.memory_bytes_per_second());
  }
  return left;
}

bool CollectivesTakePart(const Device& device) {
  const RemainingDevice left = RemainingBeside(device, 1);
  return left.compute < 1 || left.memory < 1;
}

}  // namespace weft::sim
