// Goes from instant to instant and asks every step whether it may become ready and start (rules P3 to P6).
#ifndef WEFT_SIMULATOR_NAIVE_RUN_H_
#define WEFT_SIMULATOR_NAIVE_RUN_H_

#include <cstdint>

#include "simulator/naive/expansion.h"

namespace weft::naive {

// Fills the times of all steps; those of steps that never start stay -1.
void RunSteps(Expansion& expansion, int64_t devices_per_node, int64_t slots_per_node, int64_t turn);

}  // namespace weft::naive

#endif  // WEFT_SIMULATOR_NAIVE_RUN_H_
