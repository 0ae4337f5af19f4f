// Kernels that sum over rows first sum chunks of rows, then add the chunks' sums. This header declares the code that
// all of them share, whichever launch sums the chunks (column_sums.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_CHUNKS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_CHUNKS_H_

#include "executor/backends/cuda/kernels/column_sums.h"

namespace weft::exec::cuda {

// Turns per chunk. Turn t sums every kColumnTurns-th row from the t-th on; the sum of a chunk adds its turns in order.
inline constexpr int kColumnTurns = 8;

// Adds the sums of chunks, which are in scratch, to the results.
Outcome AddColumnChunks(const ColumnSums& sums, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_CHUNKS_H_
