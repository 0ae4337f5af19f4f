// Checks a step without a program, such as a step that a test or a measurement makes.
#ifndef WEFT_KERNELS_CHECK_ALONE_H_
#define WEFT_KERNELS_CHECK_ALONE_H_

#include <string>

#include "absl/types/span.h"
#include "kernels/step_view.h"
#include "proto/program.pb.h"

namespace weft::kernels {

// Returns the first fault of the step; "" if the step fits the row of its kernel. Aliases are checked if the tensors
// state their places.
std::string CheckAlone(const Step& step, absl::Span<const StepTensor> in, absl::Span<const StepTensor> out);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_CHECK_ALONE_H_
