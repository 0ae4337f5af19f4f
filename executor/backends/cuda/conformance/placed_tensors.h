// Places the tensors of tests where the kernels of the machine can access them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_PLACED_TENSORS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_PLACED_TENSORS_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/backends/cpu/cpu_test_util.h"

namespace weft::exec::cuda {

// Tensors on TheMachine(). Only one object may be in use at a time: the next one reuses the memory of this one.
class PlacedTensors {
 public:
  PlacedTensors();

  // Returns a view of the tensor's own memory if kernels run on the host, else of a copy that includes the guard after
  // its end. `tensor` must outlive this object.
  absl::StatusOr<TensorView> Place(cpu::Tensor& tensor);
  // Waits for the enqueued work and copies the results back to the tensors.
  absl::Status Fetch();

 private:
  std::vector<std::pair<cpu::Tensor*, void*>> copies_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_PLACED_TENSORS_H_
