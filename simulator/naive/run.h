// Visits one instant after another and checks for every step whether it becomes ready and can start (rules P3 to P6,
// P12).
#ifndef WEFT_SIMULATOR_NAIVE_RUN_H_
#define WEFT_SIMULATOR_NAIVE_RUN_H_

#include <cstdint>
#include <vector>

#include "simulator/naive/expansion.h"
#include "simulator/naive/naive_simulator.h"

namespace weft::sim::naive {

// Fills in the times of all steps. Steps that never start keep -1.
void RunSteps(Expansion& expansion, const std::vector<int64_t>& capacities, const NaiveOptions& options);

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_RUN_H_
