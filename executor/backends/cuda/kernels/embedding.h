// Token and position embeddings and their backward kernels.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMBEDDING_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMBEDDING_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// y[r] = table[tokens[r] - shift]. With `split`, ranks share the table, and a token whose row another rank holds gives
// zeros. A negative token gives NaN. Without `split`, a token that has no row in the table also gives NaN. The check of
// losses finds NaN.
struct Embedding {
  const int32_t* tokens = nullptr;
  Array table, y;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t table_rows = 0;
  int64_t shift = 0;
  bool split = false;
  bool in_double = false;
};
Outcome Launch(const Embedding& embedding, void* stream);

// dtable[tokens[r] - shift] += dy[r]; without `accumulate`, rows of dtable start at 0. If a row of the table has up to
// kFew terms, they are added in ascending r. If it has more, eight partial sums each take every eighth term, and are
// then added in order. Tokens without a row here are skipped.
struct EmbeddingBackward {
  const int32_t* tokens = nullptr;
  Array dy, dtable;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t table_rows = 0;
  int64_t shift = 0;
  bool accumulate = false;
  bool in_double = false;
  void* scratch = nullptr;

  static constexpr int64_t kFew = 64;
  int64_t ScratchBytes() const;
};
Outcome Launch(const EmbeddingBackward& embedding, void* stream);

// y[r] = table[(shift + r) mod sequence].
struct PositionEmbedding {
  Array table, y;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t sequence = 0;
  int64_t shift = 0;
  bool in_double = false;
};
Outcome Launch(const PositionEmbedding& embedding, void* stream);

// dtable[(shift + r) mod sequence] += dy[r], in ascending r. Other rows of the table become 0, or with `accumulate`
// keep their values.
struct PositionEmbeddingBackward {
  Array dy, dtable;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t sequence = 0;
  int64_t table_rows = 0;
  int64_t shift = 0;
  bool accumulate = false;
  bool in_double = false;
};
Outcome Launch(const PositionEmbeddingBackward& embedding, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_EMBEDDING_H_
