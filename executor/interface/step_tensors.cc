#include "executor/interface/step_tensors.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check_alone.h"

namespace weft::exec {

absl::Status CheckStep(const Step& step, absl::Span<const TensorView> in, absl::Span<const TensorView> out) {
  std::vector<std::string> names;
  for (size_t i = 0; i < in.size(); ++i) names.push_back(absl::StrCat("input ", i));
  for (size_t i = 0; i < out.size(); ++i) names.push_back(absl::StrCat("output ", i));
  std::vector<kernels::StepTensor> tensors;
  for (const absl::Span<const TensorView> views : {in, out}) {
    for (const TensorView& view : views) tensors.push_back({names[tensors.size()], view.dtype, view.shape});
  }
  const auto all = absl::MakeConstSpan(tensors);
  const std::string fault = kernels::CheckAlone(step, all.first(in.size()), all.subspan(in.size()));
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("step '", step.name(), "', kernel ", Kernel_Name(step.kernel()), ": ", fault));
}

absl::StatusOr<double*> LossOf(const Step& step, const TensorView& losses, const StepContext& context) {
  const int64_t index = context.global_microbatch;
  if (index >= 0 && index < Elements(losses)) return static_cast<double*>(losses.data) + index;
  return absl::OutOfRangeError(absl::StrCat("step '", step.name(), "': global microbatch ", index, "; the output has ",
                                            Elements(losses), " elements"));
}

absl::StatusOr<int64_t> FirstColumnOfSlice(const Step& step, const TensorView& x, const TensorView& y,
                                           const StepContext& context) {
  const int64_t all = std::max<int64_t>(1, step.attributes().groups()) * Columns(x);
  const int64_t first = step.attributes().first_column() + context.column_shift;
  if (first >= 0 && first <= all - Columns(y)) return first;
  return absl::InvalidArgumentError(absl::StrCat("step '", step.name(), "': ", Columns(y), " columns from ", first,
                                                 " on are not among the input's ", all));
}

int64_t RowsOfSample(const Step& step, const TensorView& x, const StepContext& context) {
  if (step.attributes().sequence() > 0) return step.attributes().sequence();
  return std::max<int64_t>(1, Rows(x) / std::max<int64_t>(1, context.microbatch_sequences));
}

absl::Status CheckDropout(const Step& step, const TensorView& x, const StepContext& context) {
  const StepAttributes& a = step.attributes();
  const int64_t rows = RowsOfSample(step, x, context), heads = a.heads();
  const int64_t whole = std::max(heads > 0 ? heads : Columns(x), a.whole_columns());
  const int64_t elements = rows * whole * (heads > 0 ? rows : 1);
  if (a.dropout() == 0 || elements <= int64_t{1} << 34) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("step '", step.name(), "': ", elements,
                                                 " elements of one sample at a dropout site; allowed: at most 2^34"));
}

}  // namespace weft::exec
