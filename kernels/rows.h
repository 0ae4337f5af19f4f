// Names that the files with rows (rows_*.cc) share. Only the table uses this header.
#ifndef WEFT_KERNELS_ROWS_H_
#define WEFT_KERNELS_ROWS_H_

#include "absl/types/span.h"
#include "kernels/row.h"
#include "kernels/rules.h"

namespace weft::kernels {

using enum Types;
using enum Relation;

inline constexpr Microbatch kReadsMicrobatch = {.reads = Microbatch::Reads::kYes};

// The rows of each file; table.cc joins them.
extern const absl::Span<const KernelRow> kTokenRows, kProductRows, kNormRows, kAttentionRows, kPointwiseRows,
    kOptimizerRows, kSplitRows, kImageRows;

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_ROWS_H_
