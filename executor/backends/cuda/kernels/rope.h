// ROPE: rotary position embedding, and its table of angles.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROPE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROPE_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// For every position of a sequence: the cosines, then the sines, of the angles of a head's pairs, multiplied by the
// magnitude. These are head_size numbers of the compute type. Angles are computed in double (docs/kernels.md, "Rotary
// frequencies").
struct RopeTable {
  void* table = nullptr;
  bool in_double = false;
  int64_t sequence = 0;
  int64_t head_size = 0;
  double base = 0, factor = 0, ramp_low = 0, ramp_high = 0, ramp_positions = 0, magnitude = 1;
};
Outcome Launch(const RopeTable& table, void* stream);

// Row r has position r mod sequence. Columns are heads of head_size columns each.
struct Rope {
  Array x, y;
  const void* table = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t sequence = 0;
  int64_t head_size = 0;
  bool inverse = false;
  bool in_double = false;
};
Outcome Launch(const Rope& rope, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROPE_H_
