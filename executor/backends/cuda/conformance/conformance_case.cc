#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {

#define CASE(kernel, function) CaseFunction function;
#include "executor/backends/cuda/conformance/cases.def"
#undef CASE

CaseFunction* FindCase(Kernel kernel) {
  switch (kernel) {
#define CASE(name, function) \
  case name:                 \
    return &function;
#include "executor/backends/cuda/conformance/cases.def"
#undef CASE
    default:
      return nullptr;
  }
}

}  // namespace weft::exec::cuda
