// Cases of the conformance test: for every kernel of proto/program.proto, steps with random shapes, attributes and
// data. conformance_test.cc runs the step on the CUDA backend and, in fp64 on the same rounded inputs, on the CPU
// backend.
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
  // The test poisons the outputs before the run, except those in `updated` and the outputs of a step that accumulates.
  std::vector<Tensor> out;
  StepContext context;
  // {i, j}: output i shares the memory of input j, as it may in a program. The result is the same without sharing.
  std::vector<std::pair<int, int>> in_place;
  // Indices of outputs that the kernel overwrites only in part or adds to. The test does not poison them.
  std::vector<int> updated;
  // True if the result must equal the CPU backend's on the same types, bit for bit.
  bool exact = false;
  // Factor on the error bounds of the test. Above 1 if a result is ill-conditioned; the case gives the reason.
  double tolerance_factor = 1;
  // Additional error allowed for each element of output 0. Empty = none.
  std::vector<double> slack;
};

// Draws the parts of a case. The same seed makes the same case.
class CaseMaker {
 public:
  CaseMaker(uint64_t seed, int round_number, DType floating) : random(seed), round(round_number), dtype(floating) {}

  // `round` numbers the cases of a kernel, from 0. The first cases should have the awkward sizes (see Rows and
  // Columns).
  std::mt19937_64 random;
  int round;
  // Type of activations, weights and gradients.
  DType dtype;
  // Type of means, log-sum-exps and other statistics of activations and gradients.
  DType statistics() const { return dtype == FP64 ? FP64 : FP32; }

  int64_t Between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }
  bool Coin() { return Between(0, 1) == 1; }
  double Uniform(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random); }

  // Draw the sizes. The first 10 rounds include the awkward ones: one row, no rows, one column, multiples of 8 and
  // other numbers, and more columns than a block has threads. Later, every second round has a multiple of 8 columns.
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
  // Returns random statistics that must be positive.
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

// Makes a case of the kernel. Calls the function that cases.def names, if any; else uses the kernel's row.
ConformanceCase MakeCase(CaseMaker& make, Kernel kernel);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_CONFORMANCE_CASE_H_
