// The part of a device that collectives leave for computation (rule P3: load).
#ifndef WEFT_SIMULATOR_COST_DEVICE_LOAD_H_
#define WEFT_SIMULATOR_COST_DEVICE_LOAD_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft::sim {

// The resources of a device that are left for computation. Each collective takes what the device's `communication_load`
// states, but a quarter of every resource is always left.
struct RemainingDevice {
  // How many of TileFigures.multiprocessors are left.
  int64_t multiprocessors = 0;
  // Fractions of all multiprocessors and of the memory bandwidth that are left; 1 if the device does not state how much
  // it has.
  double compute = 1;
  double memory = 1;
};

RemainingDevice RemainingBeside(const Device& device, int collectives);

// True if collectives take any part of the device.
bool CollectivesTakePart(const Device& device);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_DEVICE_LOAD_H_
