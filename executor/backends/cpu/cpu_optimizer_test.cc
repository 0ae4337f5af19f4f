// Checks norms of gradients and optimizers against naive ones in double.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"

namespace weft::exec::cpu {
namespace {

TEST(Cpu, Norms) {
  std::mt19937_64 random(10);
  for (DType dtype : kDTypes) {
    for (int64_t n : {1, 3, 5000, 40000}) {
      KernelCase c;
      c.name = absl::StrCat("SQUARED_NORM ", DType_Name(dtype), " ", n);
      c.step = MakeStep(SQUARED_NORM);
      c.step.mutable_attributes()->set_slot(1);
      c.in = {Normal(dtype, {n}, random)};
      c.out = {Normal(FP64, {3}, random)};
      c.tolerance = 1e-13;
      c.reference = [](const std::vector<Values>& in, std::vector<Values>& expected) {
        expected[0][1] = 0;
        for (double x : in[0]) expected[0][1] += x * x;
      };
      Check(c);
    }
  }
  for (double clip : {0.0, 1.0, 100.0}) {
    KernelCase c;
    c.name = absl::StrCat("NORM_TOTAL ", clip);
    c.step = MakeStep(NORM_TOTAL);
    c.step.mutable_attributes()->set_clip_norm(clip);
    c.in = {Tensor(FP64, {3})};
    for (int i = 0; i < 3; ++i) c.in[0].Set(i, 3.0 + i);
    c.out = {Tensor(FP64, {2})};
    c.tolerance = 1e-15;
    c.reference = [=](const std::vector<Values>&, std::vector<Values>& expected) {
      expected[0] = {std::sqrt(12.0), clip == 1 ? 1 / (std::sqrt(12.0) + 1e-6) : 1};
    };
    Check(c);
  }
}

TEST(Cpu, Optimizers) {
  std::mt19937_64 random(11);
  for (DType master : kDTypes) {
    for (DType grad : kDTypes) {
      for (int64_t n : {1, 100, 20000}) {
        for (bool copy : {false, true}) {
          KernelCase c;
          c.name = absl::StrCat("ADAMW ", DType_Name(master), " ", DType_Name(grad), " ", n);
          c.step = MakeStep(ADAMW);
          StepAttributes& attributes = *c.step.mutable_attributes();
          attributes.set_beta1(0.9);
          attributes.set_beta2(0.95);
          attributes.set_epsilon(1e-8);
          attributes.set_weight_decay(0.1);
          c.context.step = 3;
          c.context.learning_rate = 0.01;
          c.in = {Normal(grad, {n}, random), Normal(master, {n}, random), Normal(master, {n}, random),
                  Normal(master, {n}, random)};
          for (int64_t i = 0; i < n; ++i) c.in[3].Set(i, std::abs(c.in[3].Get(i)));
          c.out = {Tensor(master, {n}), Tensor(master, {n}), Tensor(master, {n})};
          if (copy) c.out.push_back(Tensor(BF16, {n}));
          c.tolerance =
              copy ? ToleranceOf(BF16) : std::max(ToleranceOf(master), master == grad ? 0 : ToleranceOf(FP32));
          c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
            for (int64_t i = 0; i < n; ++i) {
              const double g = in[0][i];
              double w = in[1][i];
              w -= 0.01 * 0.1 * w;
              const double m = 0.9 * in[2][i] + 0.1 * g;
              const double v = 0.95 * in[3][i] + 0.05 * g * g;
              w -= 0.01 / (1 - std::pow(0.9, 4)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(0.95, 4)) + 1e-8);
              expected[0][i] = w;
              expected[1][i] = m;
              expected[2][i] = v;
              if (copy) expected[3][i] = w;
            }
          };
          Check(c);
          for (bool momentum : {false, true}) {
            KernelCase s;
            s.name = absl::StrCat("SGD_STEP ", DType_Name(master), " ", DType_Name(grad), " ", n);
            s.step = MakeStep(SGD_STEP);
            s.step.mutable_attributes()->set_momentum(momentum ? 0.8 : 0);
            s.step.mutable_attributes()->set_weight_decay(0.1);
            s.context.learning_rate = 0.01;
            s.in = {c.in[0], c.in[1]};
            s.out = {Tensor(master, {n})};
            if (momentum) {
              s.in.push_back(c.in[2]);
              s.out.push_back(Tensor(master, {n}));
            }
            if (copy) s.out.push_back(Tensor(BF16, {n}));
            s.tolerance = c.tolerance;
            s.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
              for (int64_t i = 0; i < n; ++i) {
                double g = in[0][i] + 0.1 * in[1][i];
                if (momentum) {
                  g = 0.8 * in[2][i] + g;
                  expected[1][i] = g;
                }
                expected[0][i] = in[1][i] - 0.01 * g;
                if (copy) expected.back()[i] = expected[0][i];
              }
            };
            Check(s);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec::cpu
