#include "executor/interface/step_tensors.h"

#include "absl/strings/str_cat.h"

namespace weft::exec {

absl::Status CheckStepTensors(absl::string_view backend, const Step& step, absl::Span<const TensorView> in,
                              absl::Span<const TensorView> out, size_t inputs, size_t outputs, uint32_t floating,
                              uint32_t integer) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("step '", step.name(), "', kernel ", Kernel_Name(step.kernel()), ": ", parts...));
  };
  if (in.size() != inputs || out.size() != outputs) {
    return error("takes ", inputs, " inputs and ", outputs, " outputs, given ", in.size(), " and ", out.size());
  }
  for (size_t i = 0; i < inputs + outputs; ++i) {
    const bool is_input = i < inputs;
    const DType dtype = is_input ? in[i].dtype : out[i - inputs].dtype;
    const char* side = is_input ? "input " : "output ";
    const size_t index = is_input ? i : i - inputs;
    if ((floating >> i & 1) != 0 && !IsFloating(dtype)) {
      return error(side, index, " is ", DType_Name(dtype), "; the ", backend,
                   " backend takes FP64, FP32, BF16 or FP16");
    }
    if ((integer >> i & 1) != 0 && dtype != INT32) {
      return error(side, index, " is ", DType_Name(dtype), "; it must be INT32");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTf32Factors(const Step& step, absl::Span<const TensorView> in) {
  if (!step.attributes().tf32()) return absl::OkStatus();
  for (size_t i = 0; i < 2; ++i) {
    if (in[i].dtype == FP32) continue;
    return absl::InvalidArgumentError(absl::StrCat("step '", step.name(), "', kernel ", Kernel_Name(step.kernel()),
                                                   ": input ", i, " is ", DType_Name(in[i].dtype),
                                                   "; factors of a product in TF32 are stored in FP32"));
  }
  return absl::OkStatus();
}

bool GoodPairs(const StepAttributes& attributes, const TensorView& pairs) {
  const int64_t heads = attributes.heads(), sequence = attributes.sequence();
  return heads >= 1 && sequence >= 1 && Rows(pairs) % sequence == 0 && Columns(pairs) % heads == 0 &&
         Columns(pairs) / heads == sequence;
}

int64_t QueryColumns(const StepAttributes& attributes, const TensorView& matrix, int64_t rows) {
  const int64_t heads = attributes.heads(), kv_heads = attributes.kv_heads();
  const int64_t own = kv_heads == 0 ? heads : kv_heads, parts = kv_heads == 0 ? 3 : 1;
  if (heads < 1 || own < 1 || heads % own != 0 || Columns(matrix) % (parts * own) != 0) return 0;
  return Rows(matrix) == rows ? Columns(matrix) / (parts * own) * heads : 0;
}

}  // namespace weft::exec
