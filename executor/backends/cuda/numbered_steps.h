// Runs steps on numbered tensors, one by one or as one run, and returns what the tensors hold afterwards.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_NUMBERED_STEPS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_NUMBERED_STEPS_H_

#include <cstdint>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "proto/program.pb.h"

namespace weft::exec::cuda {

// Returns numbers from 0 to 2, different for each seed.
cpu::Tensor Matrix(DType dtype, int64_t rows, int64_t columns, int64_t seed);

// A step and the numbers of the tensors that it reads and writes.
struct NumberedStep {
  Step step;
  std::vector<int> in, out;
};

// True if the backend of TheMachine() can run the steps as one launch, on tensors like these.
bool IsRun(const std::vector<NumberedStep>& steps, std::vector<cpu::Tensor> tensors);

// Returns the bytes of all tensors after the steps. With `as_run` the steps run as one run, which they must form;
// otherwise one by one.
std::vector<std::vector<unsigned char>> TensorsAfter(const std::vector<NumberedStep>& steps,
                                                     std::vector<cpu::Tensor> tensors, bool as_run);

// Expects the same bytes from the run and from the steps one by one.
void ExpectSameBehind(const std::vector<NumberedStep>& steps, const std::vector<cpu::Tensor>& tensors);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_NUMBERED_STEPS_H_
