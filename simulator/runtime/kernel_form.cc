#include "simulator/runtime/kernel_form.h"

#include <string>

namespace weft {

const KernelForm* FormOf(const Runtime& runtime, Kernel kernel, int capability) {
  const KernelForm* found = nullptr;
  const std::string& name = Kernel_Name(kernel);
  for (const KernelForm& form : runtime.kernels()) {
    if (form.kernel() != name || capability < form.from_compute_capability()) continue;
    if (form.below_compute_capability() > 0 && capability >= form.below_compute_capability()) continue;
    found = &form;
  }
  return found;
}

}  // namespace weft
