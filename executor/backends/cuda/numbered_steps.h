// Steps on tensors that are named by their numbers, run one by one and as one run: what the tensors are behind them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_NUMBERED_STEPS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_NUMBERED_STEPS_H_

#include <cstdint>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "proto/program.pb.h"

namespace weft::exec::cuda {

// Numbers from 0 to 2, others for another seed.
cpu::Tensor Matrix(DType dtype, int64_t rows, int64_t columns, int64_t seed);

// A step and which tensors it reads and writes.
struct NumberedStep {
  Step step;
  std::vector<int> in, out;
};

// Whether the machine's backend makes one run of the steps, on tensors like these.
bool IsRun(const std::vector<NumberedStep>& steps, std::vector<cpu::Tensor> tensors);

// The bytes of all tensors behind the steps; as a run, which the steps have to be, or one by one.
std::vector<std::vector<unsigned char>> Behind(const std::vector<NumberedStep>& steps, std::vector<cpu::Tensor> tensors,
                                               bool as_run);

// Expects the same bytes of both.
void ExpectSameBehind(const std::vector<NumberedStep>& steps, const std::vector<cpu::Tensor>& tensors);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_NUMBERED_STEPS_H_
