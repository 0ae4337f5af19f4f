// Cases of the conformance test: for every kernel of proto/program.proto a function that makes a step with random
// shapes, attributes and data. conformance_test.cc runs it on the CUDA backend, and on the CPU backend in fp64 on the
// same rounded inputs.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_CONFORMANCE_CASE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_CONFORMANCE_CASE_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/interface/backend.h"

namespace weft::exec::cuda {

using cpu::Tensor;

struct ConformanceCase {
  Step step;
  std::vector<Tensor> in;
  // Poisoned by the test before the run, but for output 0 of a step that accumulates, and for `updated`.
  std::vector<Tensor> out;
  StepContext context;
  // Output i is in the memory of input j, as programs may have it: {i, j}. It need not be there for the result.
  std::vector<std::pair<int, int>> in_place;
  // Outputs that the kernel changes instead of writing: they keep what they hold at first.
  std::vector<int> updated;
  // The result must be that of the CPU backend on the very same types, bit for bit.
  bool exact = false;
  // Of the bounds of the test; above 1 where a result is ill-conditioned, with the reason at the case.
  double tolerance_factor = 1;
  // What each element of output 0 may be off by besides; empty: nothing.
  std::vector<double> slack;
};

// What a case is made of. The same seed makes the same case.
class CaseMaker {
 public:
  CaseMaker(uint64_t seed, int round_number, DType floating) : random(seed), round(round_number), dtype(floating) {}

  // Cases of a kernel are numbered; the first ones should be the awkward sizes (see Rows and Columns).
  std::mt19937_64 random;
  int round;
  // Of activations, weights and gradients.
  DType dtype;
  // Of means, log-sum-exps and other statistics beside them.
  DType statistics() const { return dtype == FP64 ? FP64 : FP32; }

  int64_t Between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }
  bool Coin() { return Between(0, 1) == 1; }
  double Uniform(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random); }

  // One row, one column, multiples of 8 and not, more columns than a block has threads, none. Columns of rounds from 10
  // on are multiples of 8 every other time.
  int64_t Rows() {
    static constexpr int64_t kRows[] = {1, 5, 3, 33, 9, 2, 4, 2, 0, 70};
    return round < 10 ? kRows[round] : Between(1, 40);
  }
  int64_t Columns() {
    static constexpr int64_t kColumns[] = {8, 1, 64, 37, 200, 1032, 1100, 2056, 24, 30};
    if (round < 10) return kColumns[round];
    return round % 2 == 0 ? 8 * Between(1, 40) : Between(1, 300);
  }

  Tensor Normal(DType type, std::vector<int64_t> shape, double scale = 1, double mean = 0) {
    Tensor tensor(type, std::move(shape));
    std::normal_distribution<double> normal(mean, scale);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, normal(random));
    return tensor;
  }
  Tensor Normal(std::vector<int64_t> shape, double scale = 1, double mean = 0) {
    return Normal(dtype, std::move(shape), scale, mean);
  }
  // Statistics that must be positive.
  Tensor Positive(DType type, std::vector<int64_t> shape) {
    Tensor tensor(type, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, Uniform(0.5, 2));
    return tensor;
  }
  Tensor Integers(std::vector<int64_t> shape, int64_t least, int64_t most) {
    Tensor tensor(INT32, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, static_cast<double>(Between(least, most)));
    return tensor;
  }

  static Step MakeStep(Kernel kernel, bool accumulate = false) {
    Step step;
    step.set_name(Kernel_Name(kernel));
    step.set_kernel(kernel);
    step.set_accumulate(accumulate);
    return step;
  }
};

using CaseFunction = ConformanceCase(CaseMaker& make);

// Null: the kernel has no case.
CaseFunction* FindCase(Kernel kernel);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_CONFORMANCE_CASE_H_
