// Checks matrix products against naive products in double.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"

namespace weft::exec::cpu {
namespace {

TEST(Cpu, MatMul) {
  std::mt19937_64 random(1);
  const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 5},      {12, 32, 16},  {13, 33, 17}, {50, 70, 300},
                               {97, 65, 9}, {100, 40, 600}, {3, 200, 257}, {200, 7, 64}, {5, 9, 0}};
  for (DType dtype : kDTypes) {
    for (const auto& [m, n, k] : shapes) {
      for (int bits = 0; bits < 16; ++bits) {
        const bool ta = bits & 1, tb = bits & 2, accumulate = bits & 4, bias = bits & 8;
        KernelCase c;
        c.name = absl::StrCat("MATMUL ", DType_Name(dtype), " ", m, "x", n, "x", k, " flags ", bits);
        c.step = MakeStep(MATMUL, accumulate);
        c.step.mutable_attributes()->set_transpose_a(ta);
        c.step.mutable_attributes()->set_transpose_b(tb);
        c.in.push_back(Normal(dtype, ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, random));
        c.in.push_back(Normal(dtype, tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, random));
        if (bias) c.in.push_back(Normal(dtype, {n}, random));
        if (k == 0 && !ta) continue;
        c.out.push_back(Normal(dtype, {m, n}, random));
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = bias ? in[2][j] : 0;
              for (int64_t l = 0; l < k; ++l)
                sum += in[0][ta ? l * m + i : i * k + l] * in[1][tb ? j * k + l : l * n + j];
              expected[0][i * n + j] = (accumulate ? expected[0][i * n + j] : 0) + sum;
            }
          }
        };
        Check(c);
      }
    }
  }
}

// Splitting rows into microbatches changes no bit of a product.
TEST(Cpu, MatMulRowsDoNotDependOnTheirNeighbors) {
  std::mt19937_64 random(2);
  const int64_t m = 61, n = 83, k = 517;
  Tensor a = Normal(FP32, {m, k}, random), b = Normal(FP32, {k, n}, random);
  std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  std::vector<Tensor> in = {a, b}, out = {Tensor(FP32, {m, n})};
  ASSERT_TRUE(RunStep(*backend, MakeStep(MATMUL), in, out).ok());
  for (int64_t row = 0; row < m; ++row) {
    Tensor one(FP32, {1, k});
    for (int64_t j = 0; j < k; ++j) one.Set(j, a.Get(row * k + j));
    std::vector<Tensor> in_row = {one, b}, out_row = {Tensor(FP32, {1, n})};
    ASSERT_TRUE(RunStep(*backend, MakeStep(MATMUL), in_row, out_row).ok());
    for (int64_t j = 0; j < n; ++j) ASSERT_EQ(out_row[0].Get(j), out[0].Get(row * n + j));
  }
}

TEST(Cpu, MixedTypesComputeInFloatAndRoundOnce) {
  std::mt19937_64 random(3);
  KernelCase c;
  c.name = "MATMUL bf16 x fp32 -> fp32";
  c.step = MakeStep(MATMUL);
  c.in = {Normal(BF16, {20, 30}, random), Normal(FP32, {30, 11}, random)};
  c.out = {Tensor(FP32, {20, 11})};
  c.tolerance = ToleranceOf(FP32);
  c.reference = [](const std::vector<Values>& in, std::vector<Values>& expected) {
    for (int i = 0; i < 20; ++i) {
      for (int j = 0; j < 11; ++j) {
        for (int l = 0; l < 30; ++l) expected[0][i * 11 + j] += in[0][i * 30 + l] * in[1][l * 11 + j];
      }
    }
  };
  Check(c);
}

}  // namespace
}  // namespace weft::exec::cpu
