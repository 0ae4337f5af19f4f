// Maps a sample of the run to a window of the data (docs/kernels.md, data order).
#ifndef WEFT_EXECUTOR_DATA_DATA_ORDER_H_
#define WEFT_EXECUTOR_DATA_DATA_ORDER_H_

#include <cstdint>

namespace weft::exec {

// Epoch e, samples [e * windows, (e + 1) * windows), visits every window once, in an order that depends on (seed, e)
// alone. windows in [1, 2^62], sample >= 0.
int64_t WindowOfSample(uint64_t seed, int64_t windows, int64_t sample);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_DATA_DATA_ORDER_H_
