// TIMESTEP_EMBEDDING and SQUARED_ERROR.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DIFFUSION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DIFFUSION_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// The first half of the columns are cosines of the time multiplied by frequencies, the second half sines. Computed in
// double.
struct TimestepEmbedding {
  const int32_t* timesteps = nullptr;
  Array y;
  int64_t rows = 0;
  int64_t columns = 0;
  double scale = 1;
};
Outcome Launch(const TimestepEmbedding& embedding, void* stream);

// *loss = weight Σ (prediction - target)², in double.
struct SquaredError {
  Array prediction, target;
  double* loss = nullptr;
  int64_t elements = 0;
  double weight = 0;
  // Scratch memory of Parts() doubles.
  double* scratch = nullptr;

  // Returns the number of partial sums, which are added at the end. It depends only on the shape.
  int64_t Parts() const {
    const int64_t parts = (elements + 4095) / 4096;
    return parts < 1024 ? (parts > 0 ? parts : 1) : 1024;
  }
};
Outcome Launch(const SquaredError& error, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DIFFUSION_H_
