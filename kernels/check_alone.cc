#include "kernels/check_alone.h"

#include "absl/strings/str_cat.h"

namespace weft::kernels {

std::string CheckAlone(const Step& step, absl::Span<const StepTensor> in, absl::Span<const StepTensor> out) {
  const KernelRow* row = FindRow(step.kernel());
  if (row == nullptr) return "names no kernel";
  std::string fault;
  const auto report = [&](const char* rule, const std::string& message) {
    if (fault.empty()) fault = absl::StrCat(rule, " ", message);
  };
  StepView(*row, step, in, out, nullptr, report).Check();
  return fault;
}

}  // namespace weft::kernels
