// Tensors of tests where the kernels of the machine find them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_PLACED_TENSORS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_PLACED_TENSORS_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/backends/cpu/cpu_test_util.h"

namespace weft::exec::cuda {

// On TheMachine(), one at a time: what is placed by the next one takes the memory of this one.
class PlacedTensors {
 public:
  PlacedTensors();

  // In the tensor's own memory where kernels run on the host, else in a copy of all of it, the guard behind its end
  // too. `tensor` outlives this.
  absl::StatusOr<TensorView> Place(cpu::Tensor& tensor);
  // Waits for what was enqueued; what it has left in the copies goes back to the tensors.
  absl::Status Fetch();

 private:
  std::vector<std::pair<cpu::Tensor*, void*>> copies_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_PLACED_TENSORS_H_
