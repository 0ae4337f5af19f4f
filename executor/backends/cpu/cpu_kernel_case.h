// Checks one kernel against a naive reference in double, on 1 to 3 threads and on every instruction set of this
// machine.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_KERNEL_CASE_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_KERNEL_CASE_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"

namespace weft::exec::cpu {

using Values = std::vector<double>;

// Computes the expected outputs from the inputs, all as doubles. On entry `expected` holds the old outputs.
using Reference = std::function<void(const std::vector<Values>& in, std::vector<Values>& expected)>;

struct KernelCase {
  std::string name;
  Step step;
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  StepContext context;
  // Largest allowed error, relative to the largest expected magnitude of the output.
  double tolerance;
  Reference reference;
};

inline double ToleranceOf(DType dtype) { return dtype == FP64 ? 1e-12 : dtype == FP32 ? 3e-6 : 8e-3; }

inline std::vector<Tensor> RunWith(const KernelCase& c, int threads, const LoopTable& loops) {
  std::vector<Tensor> in = c.in, out = c.out;
  const absl::Status status = RunStep(*MakeCpuBackendWithLoops(threads, loops), c.step, in, out, c.context);
  EXPECT_TRUE(status.ok()) << c.name << ": " << status;
  for (const Tensor& tensor : out) EXPECT_TRUE(tensor.GuardIntact()) << c.name;
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(in[i].bytes(), c.in[i].bytes()) << c.name << " changed input " << i;
  return out;
}

inline void Check(const KernelCase& c) {
  std::vector<Values> in, expected;
  for (const Tensor& tensor : c.in) in.push_back(tensor.dtype() == EXACT192 ? Values() : tensor.Values());
  for (const Tensor& tensor : c.out) expected.push_back(tensor.dtype() == EXACT192 ? Values() : tensor.Values());
  c.reference(in, expected);
  std::map<std::string, std::vector<Tensor>> by_loops;
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    const LoopTable* loops = FindLoops(name);
    if (loops == nullptr) continue;
    const std::vector<Tensor> out = RunWith(c, 1, *loops);
    for (size_t i = 0; i < out.size(); ++i) {
      double scale = 1e-30;
      for (double value : expected[i]) {
        if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
      }
      for (size_t e = 0; e < expected[i].size(); ++e) {
        const double got = out[i].Get(static_cast<int64_t>(e));
        ASSERT_NEAR(got, expected[i][e], c.tolerance * scale)
            << c.name << " " << name << " output " << i << " [" << e << "]";
      }
    }
    for (int threads : {2, 3}) {
      const std::vector<Tensor> again = RunWith(c, threads, *loops);
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i].bytes(), again[i].bytes()) << c.name << " " << name << ": bits depend on threads";
      }
    }
    by_loops.emplace(name, out);
  }
  if (by_loops.count("avx512") != 0 && by_loops.count("avx2") != 0) {
    for (size_t i = 0; i < c.out.size(); ++i) {
      ASSERT_EQ(by_loops.at("avx512")[i].bytes(), by_loops.at("avx2")[i].bytes())
          << c.name << ": bits depend on the vector width";
    }
  }
}

inline Step MakeStep(Kernel kernel, bool accumulate = false) {
  Step step;
  step.set_name(Kernel_Name(kernel));
  step.set_kernel(kernel);
  step.set_accumulate(accumulate);
  return step;
}

inline constexpr DType kDTypes[] = {FP64, FP32, BF16, FP16};
// Type of the statistics (norms, log-sum-exps and the like) that belong to a tensor of this type.
inline DType StatisticsOf(DType dtype) { return dtype == FP64 ? FP64 : FP32; }

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_KERNEL_CASE_H_
