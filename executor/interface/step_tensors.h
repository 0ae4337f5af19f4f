// The tensors of a step as every backend sees them, as matrices, and the checks that refuse wrong ones. Internal to the
// backends.
#ifndef WEFT_EXECUTOR_INTERFACE_STEP_TENSORS_H_
#define WEFT_EXECUTOR_INTERFACE_STEP_TENSORS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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
// Compares both views as matrices.
inline bool SameShape(const TensorView& a, const TensorView& b) {
  return Rows(a) == Rows(b) && Columns(a) == Columns(b);
}

inline bool IsFloating(DType dtype) { return dtype == FP64 || dtype == FP32 || dtype == BF16 || dtype == FP16; }

// InvalidArgument, naming step, kernel and `backend`, unless all of this holds: there are as many inputs and outputs as
// stated; all tensors named by `floating` (bit i = input i, then outputs) are FP64, FP32, BF16 or FP16; all tensors
// named by `integer` are INT32.
absl::Status CheckStepTensors(absl::string_view backend, const Step& step, absl::Span<const TensorView> in,
                              absl::Span<const TensorView> out, size_t inputs, size_t outputs, uint32_t floating,
                              uint32_t integer);

// Checks a MATMUL, given at least its two factors. InvalidArgument, naming step and kernel, for a product in TF32 of
// factors that are not stored in FP32.
absl::Status CheckTf32Factors(const Step& step, absl::Span<const TensorView> in);

// Attention: true if `pairs` is [rows, heads * sequence] and its rows form whole sequences.
bool GoodPairs(const StepAttributes& attributes, const TensorView& pairs);

// Attention: returns the columns of q if `matrix` has `rows` rows and is qkv, or is k or v alone with heads as wide as
// q's; else 0.
int64_t QueryColumns(const StepAttributes& attributes, const TensorView& matrix, int64_t rows);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_STEP_TENSORS_H_
