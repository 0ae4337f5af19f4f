// Most bytes that are live on a rank at one time, calculated from the times of its steps (rule P7).
#ifndef WEFT_SIMULATOR_NAIVE_LIVE_PEAK_H_
#define WEFT_SIMULATOR_NAIVE_LIVE_PEAK_H_

#include <cstdint>

#include "simulator/naive/expansion.h"

namespace weft::sim::naive {

// Returns the peak of device memory. All steps must have their times.
int64_t LivePeak(const Expansion& expansion, int64_t rank);

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_LIVE_PEAK_H_
