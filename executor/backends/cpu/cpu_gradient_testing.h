// A test of backward kernels against finite differences of their forward kernel, in fp64: for random directions u of
// the inputs and v of the outputs, <v, (f(x + h u) - f(x - h u)) / 2h> = <backward(v), u>.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_GRADIENT_TESTING_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_GRADIENT_TESTING_H_

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"

namespace weft::exec::cpu {

using Tensors = std::vector<Tensor>;

inline Tensors Moved(const Tensors& x, const Tensors& direction, double h) {
  Tensors moved = x;
  for (size_t i = 0; i < x.size(); ++i) {
    for (int64_t e = 0; e < x[i].size(); ++e) moved[i].Set(e, x[i].Get(e) + h * direction[i].Get(e));
  }
  return moved;
}

inline double Inner(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.Get(i) * b.Get(i);
  return sum;
}

class GradientTest : public testing::Test {
 protected:
  // Checks `backward` against finite differences of `forward` at x. `forward` maps differentiable inputs to one tensor.
  // `backward` maps the gradient of that tensor to gradients of the inputs.
  void Check(const std::string& name, const Tensors& x, const std::function<Tensor(Tensors)>& forward,
             const std::function<Tensors(const Tensor& dy)>& backward) {
    const Tensor y = forward(x);
    const Tensor dy = Normal(FP64, y.shape(), random_);
    const Tensors gradients = backward(dy);
    ASSERT_EQ(gradients.size(), x.size()) << name;
    for (int trial = 0; trial < 3; ++trial) {
      for (size_t only = 0; only < x.size(); ++only) {
        // Moves one input at a time, so that a wrong gradient cannot hide behind larger ones.
        Tensors direction;
        for (const Tensor& tensor : x) direction.push_back(Tensor(FP64, tensor.shape()));
        FillNormal(direction[only], random_);
        // Richardson extrapolation of central differences: error O(h^4).
        const auto slope = [&](double h) {
          return (Inner(dy, forward(Moved(x, direction, h))) - Inner(dy, forward(Moved(x, direction, -h)))) / (2 * h);
        };
        const double h = 1e-3;
        const double numeric = (4 * slope(h / 2) - slope(h)) / 3;
        const double analytic = Inner(gradients[only], direction[only]);
        EXPECT_NEAR(analytic, numeric, 1e-8 * (1 + std::abs(numeric))) << name << " input " << only;
      }
    }
  }

  Tensors Run(const Step& step, Tensors in, Tensors out, const StepContext& context = {}) {
    const absl::Status status = RunStep(*backend_, step, in, out, context);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  Tensors Run(Kernel kernel, Tensors in, Tensors out) {
    Step step;
    step.set_kernel(kernel);
    return Run(step, std::move(in), std::move(out));
  }

  std::mt19937_64 random_{20};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
};

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_GRADIENT_TESTING_H_
