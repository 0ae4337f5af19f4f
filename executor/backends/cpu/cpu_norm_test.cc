// Checks layer norms against naive ones in double.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"

namespace weft::exec::cpu {
namespace {

TEST(Cpu, LayerNorm) {
  std::mt19937_64 random(5);
  for (DType dtype : kDTypes) {
    for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {17, 64}, {40, 100}, {9, 771}}) {
      const double epsilon = 1e-5;
      const auto statistics = [epsilon, d = d](const Values& x, int64_t r, double& mean, double& rstd) {
        mean = 0;
        double variance = 0;
        for (int64_t j = 0; j < d; ++j) mean += x[r * d + j] / d;
        for (int64_t j = 0; j < d; ++j) variance += std::pow(x[r * d + j] - mean, 2) / d;
        rstd = 1 / std::sqrt(variance + epsilon);
      };
      KernelCase c;
      c.name = absl::StrCat("LAYER_NORM ", DType_Name(dtype), " ", rows, "x", d);
      c.step = MakeStep(LAYER_NORM);
      c.step.mutable_attributes()->set_epsilon(epsilon);
      c.in = {Normal(dtype, {rows, d}, random), Normal(dtype, {d}, random), Normal(dtype, {d}, random)};
      c.out = {Tensor(dtype, {rows, d}), Tensor(StatisticsOf(dtype), {rows}), Tensor(StatisticsOf(dtype), {rows})};
      c.tolerance = ToleranceOf(dtype);
      c.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t r = 0; r < rows; ++r) {
          double mean, rstd;
          statistics(in[0], r, mean, rstd);
          for (int64_t j = 0; j < d; ++j)
            expected[0][r * d + j] = (in[0][r * d + j] - mean) * rstd * in[1][j] + in[2][j];
          expected[1][r] = mean;
          expected[2][r] = rstd;
        }
      };
      Check(c);

      Tensor mean(StatisticsOf(dtype), {rows}), rstd(StatisticsOf(dtype), {rows});
      for (int64_t r = 0; r < rows; ++r) {
        double m, s;
        statistics(c.in[0].Values(), r, m, s);
        mean.Set(r, m);
        rstd.Set(r, s);
      }
      for (bool accumulate : {false, true}) {
        KernelCase b;
        b.name = absl::StrCat(c.name, " backward");
        b.step = MakeStep(LAYER_NORM_BACKWARD, accumulate);
        b.in = {Normal(dtype, {rows, d}, random), c.in[0], c.in[1], mean, rstd};
        b.out = {Normal(dtype, {rows, d}, random)};
        b.tolerance = 4 * ToleranceOf(dtype);
        b.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t r = 0; r < rows; ++r) {
            // dx[j] = sum over i of dy[i] gamma[i] dz[i]/dx[j], with the Jacobian written out.
            for (int64_t j = 0; j < d; ++j) {
              const double zj = (in[1][r * d + j] - in[3][r]) * in[4][r];
              double sum = 0;
              for (int64_t i = 0; i < d; ++i) {
                const double zi = (in[1][r * d + i] - in[3][r]) * in[4][r];
                sum += in[0][r * d + i] * in[2][i] * in[4][r] * ((i == j) - 1.0 / d - zi * zj / d);
              }
              expected[0][r * d + j] = (accumulate ? expected[0][r * d + j] : 0) + sum;
            }
          }
        };
        Check(b);
        KernelCase w;
        w.name = absl::StrCat(c.name, " backward weight");
        w.step = MakeStep(LAYER_NORM_BACKWARD_WEIGHT, accumulate);
        w.in = {b.in[0], c.in[0], mean, rstd};
        w.out = {Normal(dtype, {d}, random), Normal(dtype, {d}, random)};
        w.tolerance = ToleranceOf(dtype);
        w.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t j = 0; j < d; ++j) {
            double dgamma = 0, dbeta = 0;
            for (int64_t r = 0; r < rows; ++r) {
              dgamma += in[0][r * d + j] * (in[1][r * d + j] - in[2][r]) * in[3][r];
              dbeta += in[0][r * d + j];
            }
            expected[0][j] = (accumulate ? expected[0][j] : 0) + dgamma;
            expected[1][j] = (accumulate ? expected[1][j] : 0) + dbeta;
          }
        };
        Check(w);
        KernelCase s;
        s.name = absl::StrCat("BIAS_GRADIENT ", DType_Name(dtype));
        s.step = MakeStep(BIAS_GRADIENT, accumulate);
        s.in = {b.in[0]};
        s.out = {w.out[0]};
        s.tolerance = ToleranceOf(dtype);
        s.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t j = 0; j < d; ++j) {
            if (!accumulate) expected[0][j] = 0;
            for (int64_t r = 0; r < rows; ++r) expected[0][j] += in[0][r * d + j];
          }
        };
        Check(s);
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec::cpu
