// The tensors of a step as every backend sees them, as matrices, and the check of a step against the table of kernels.
#ifndef WEFT_EXECUTOR_INTERFACE_STEP_TENSORS_H_
#define WEFT_EXECUTOR_INTERFACE_STEP_TENSORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/interface/backend.h"
#include "proto/program.pb.h"

namespace weft::exec {

inline int64_t Elements(const TensorView& view) {
  int64_t n = 1;
  for (int64_t extent : view.shape) n *= extent;
  return n;
}
// The last extent; 1 for a scalar.
inline int64_t Columns(const TensorView& view) { return view.shape.empty() ? 1 : view.shape.back(); }
inline int64_t Rows(const TensorView& view) {
  const int64_t columns = Columns(view);
  return columns == 0 ? 0 : Elements(view) / columns;
}
// InvalidArgument "step 'NAME', kernel KERNEL: <fault>" unless the step and its tensors fit the kernel's row in the
// table of kernels (kernels/row.h). The caller of a backend checks each step once, before it runs. The verifier checks
// those rules of a row that need the whole program.
absl::Status CheckStep(const Step& step, absl::Span<const TensorView> in, absl::Span<const TensorView> out);

// CheckStep does not check rules that depend on the step's context or on the number of its random counters. The
// functions below check those.

// Returns the element of a tensor of losses that the step writes: the element of its global microbatch. OutOfRange if
// there is none.
absl::StatusOr<double*> LossOf(const Step& step, const TensorView& losses, const StepContext& context);

// SLICE_COLUMNS: returns the first column of the slice. InvalidArgument if the slice leaves the columns of the input's
// groups.
absl::StatusOr<int64_t> FirstColumnOfSlice(const Step& step, const TensorView& x, const TensorView& y,
                                           const StepContext& context);

// Returns the number of rows that one sample has at a dropout site, at least 1: the step's attribute `sequence` if it
// is set (as for attention, which drops pairs of positions), else the rows of x divided by the microbatch's sequences.
int64_t RowsOfSample(const Step& step, const TensorView& x, const StepContext& context);

// InvalidArgument if the step has dropout and one sample has more elements than the random counters can number: 2^34.
absl::Status CheckDropout(const Step& step, const TensorView& x, const StepContext& context);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_STEP_TENSORS_H_
