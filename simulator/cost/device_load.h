// What a device has left for computation while it is in collectives (rule P3: load).
#ifndef WEFT_SIMULATOR_COST_DEVICE_LOAD_H_
#define WEFT_SIMULATOR_COST_DEVICE_LOAD_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft::sim {

// Each collective takes what `communication_load` of the device says; a quarter of everything is always left.
struct DeviceLeft {
  // Of TileFigures.multiprocessors.
  int64_t multiprocessors = 0;
  // Fractions of all multiprocessors, and of the memory bandwidth: 1 where the device does not say how much it has.
  double compute = 1;
  double memory = 1;
};

DeviceLeft LeftBeside(const Device& device, int collectives);

// Whether collectives take anything.
bool CollectivesTakePart(const Device& device);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_DEVICE_LOAD_H_
