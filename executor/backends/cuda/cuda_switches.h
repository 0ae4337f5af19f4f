// Parts of the CUDA backend that a user can leave out or add at run time, to find out which part a fault or a slow step
// comes from.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_SWITCHES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_SWITCHES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec::cuda {

struct Switches {
  // False: the backend's own kernels compute attention (convolutions), not cuDNN. Convolutions on cuDNN have crashed on
  // an H200 (docs/gpu-results.md).
  bool cudnn_attention = true;
  bool cudnn_convolution = false;
  // False: every step is a launch of its own.
  bool joined_launches = true;
};

// Parses the values of the environment variables WEFT_CUDA_WITH and WEFT_CUDA_WITHOUT: names of parts to use and to
// leave out, separated by commas. InvalidArgument for an unknown name; the message has the nearest known one.
absl::StatusOr<Switches> ParseSwitches(absl::string_view with, absl::string_view without);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_SWITCHES_H_
