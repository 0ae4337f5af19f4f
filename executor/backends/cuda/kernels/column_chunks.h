// What sums over rows have in common, whichever launch makes those of chunks (column_sums.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_CHUNKS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_CHUNKS_H_

#include "executor/backends/cuda/kernels/column_sums.h"

namespace weft::exec::cuda {

// The sum of a chunk is that of so many turns, in order: turn t adds up every kColumnTurns-th row from the t-th on.
inline constexpr int kColumnTurns = 8;

// Adds the chunks' sums, which are in scratch, to the results.
Outcome AddColumnChunks(const ColumnSums& sums, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_CHUNKS_H_
