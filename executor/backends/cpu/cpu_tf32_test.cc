// Tests products in TF32: factors are rounded to ten bits of fraction, and everything after that is as in fp32.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"
#include "executor/numerics/tf32_bits.h"

namespace weft::exec::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Rounds by scaling to 11 significant bits, whereas the kernels add to the bit pattern. For finite results only.
float RoundByScaling(float value) {
  if (value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 11, -136));
  return static_cast<float>(std::nearbyint(value / unit) * unit);
}

Step Product(bool transpose_a, bool transpose_b, bool tf32 = true) {
  Step step = MakeStep(MATMUL);
  step.mutable_attributes()->set_transpose_a(transpose_a);
  step.mutable_attributes()->set_transpose_b(transpose_b);
  step.mutable_attributes()->set_tf32(tf32);
  return step;
}

std::vector<const LoopTable*> AllLoops() {
  std::vector<const LoopTable*> tables;
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (const LoopTable* loops = FindLoops(name)) tables.push_back(loops);
  }
  return tables;
}

// Returns the product of each value with a vector of one 1 and three 0s: as left and as right factor, transposed and
// not.
std::vector<std::vector<float>> ThroughProducts(const std::vector<float>& values, const LoopTable& loops) {
  const int64_t count = static_cast<int64_t>(values.size()), depth = 4;
  Tensor column(FP32, {count, depth}), row(FP32, {depth, count}), one(FP32, {1, depth});
  for (int64_t i = 0; i < count; ++i) {
    column.data<float>()[i * depth] = values[i];
    row.data<float>()[i] = values[i];
  }
  one.data<float>()[0] = 1;
  const auto backend = MakeCpuBackendWithLoops(1, loops);
  std::vector<std::vector<float>> results;
  for (const bool transposed : {false, true}) {
    for (const bool first : {false, true}) {
      Tensor& given = first == transposed ? row : column;
      // As the left factor, the values give a product of [count, 4] and [4, 1]. As the right factor, they give [1, 4]
      // and [4, count].
      const Step step = first ? Product(transposed, true) : Product(false, transposed);
      std::vector<Tensor> in = {first ? given : one, first ? one : given};
      std::vector<Tensor> out = {Tensor(FP32, first ? std::vector<int64_t>{count, 1} : std::vector<int64_t>{1, count})};
      const absl::Status status = RunStep(*backend, step, in, out);
      EXPECT_TRUE(status.ok()) << status;
      results.emplace_back(out[0].data<float>(), out[0].data<float>() + count);
    }
  }
  return results;
}

TEST(CpuTf32, FactorsAreRoundedToTenBitsToNearestEven) {
  const std::vector<std::pair<float, float>> cases = {
      {1, 1},
      {1 + 0x1p-10f, 1 + 0x1p-10f},
      // Ties go to the even neighbor. The smallest offset from a tie goes to the nearer neighbor.
      {1 + 0x1p-11f, 1},
      {1 + 3 * 0x1p-11f, 1 + 0x1p-9f},
      {-1 - 3 * 0x1p-11f, -1 - 0x1p-9f},
      {1 + 0x1p-11f + 0x1p-23f, 1 + 0x1p-10f},
      {1 + 3 * 0x1p-11f - 0x1p-23f, 1 + 0x1p-10f},
      {2 - 0x1p-11f, 2},
      {-2 + 0x1p-11f, -2},
      {16777215, 16777216},
      // TF32 has the range of fp32: the largest finite number, and numbers that round to infinity.
      {0x1.ffcp127f, 0x1.ffcp127f},
      {0x1.ffdffep127f, 0x1.ffcp127f},
      {0x1.ffep127f, kInfinity},
      {-kLargest, -kInfinity},
      {kInfinity, kInfinity},
      {-kInfinity, -kInfinity},
      {0x1p-126f, 0x1p-126f},
      // Subnormal results are multiples of 2^-136.
      {0x1p-136f, 0x1p-136f},
      {0x1p-137f, 0},
      {3 * 0x1p-137f, 0x1p-135f},
      {0x1p-149f, 0},
      {0x1p-126f - 0x1p-149f, 0x1p-126f},
      {0, 0},
  };
  std::vector<float> values;
  for (const auto& [value, rounded] : cases) values.push_back(value);
  for (const LoopTable* loops : AllLoops()) {
    for (const std::vector<float>& got : ThroughProducts(values, *loops)) {
      for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(got[i], cases[i].second) << values[i] << " " << loops->name;
    }
  }
}

// Tries arbitrary bit patterns. A NaN stays a NaN, even if only its lowest bits make it one.
TEST(CpuTf32, LoopsRoundAsEverybodyElseDoes) {
  std::mt19937 random(3);
  std::vector<float> values = {FloatOfBits(0x7f800001), FloatOfBits(0xff801fff), NAN};
  for (int i = 0; i < 20000; ++i) values.push_back(FloatOfBits(static_cast<uint32_t>(random())));
  for (const LoopTable* loops : AllLoops()) {
    for (const std::vector<float>& got : ThroughProducts(values, *loops)) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) {
          ASSERT_TRUE(std::isnan(got[i]) && std::isnan(Tf32FromFloat(values[i]))) << BitsOfFloat(values[i]);
          continue;
        }
        ASSERT_EQ(got[i], Tf32FromFloat(values[i])) << values[i] << " " << loops->name;
        if (std::isfinite(got[i])) {
          ASSERT_EQ(got[i], RoundByScaling(values[i])) << loops->name;
        }
      }
    }
  }
}

// A TF32 product, with bias and old value, equals the fp32 product of rounded factors, bit for bit, for blocks of any
// shape and any number of threads.
TEST(CpuTf32, IsTheProductOfRoundedFactorsInFp32) {
  std::mt19937_64 random(4);
  const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 5},      {13, 33, 17},  {50, 70, 300},
                               {97, 65, 9}, {100, 40, 600}, {3, 200, 257}, {200, 7, 64}};
  for (const auto& [m, n, k] : shapes) {
    for (int bits = 0; bits < 8; ++bits) {
      const bool ta = bits & 1, tb = bits & 2, more = bits & 4;
      std::vector<Tensor> in = {Normal(FP32, ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, random),
                                Normal(FP32, tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, random)};
      if (more) in.push_back(Normal(FP32, {n}, random));
      const Tensor old = Normal(FP32, {m, n}, random);
      std::vector<Tensor> rounded = in;
      for (int i = 0; i < 2; ++i) {
        for (int64_t e = 0; e < in[i].size(); ++e) rounded[i].data<float>()[e] = RoundByScaling(in[i].data<float>()[e]);
      }
      Step step = Product(ta, tb), plain = Product(ta, tb, /*tf32=*/false);
      step.set_accumulate(more);
      plain.set_accumulate(more);
      for (const LoopTable* loops : AllLoops()) {
        std::vector<Tensor> expected = {old};
        ASSERT_TRUE(RunStep(*MakeCpuBackendWithLoops(1, *loops), plain, rounded, expected).ok());
        for (const int threads : {1, 2, 3}) {
          std::vector<Tensor> out = {old};
          ASSERT_TRUE(RunStep(*MakeCpuBackendWithLoops(threads, *loops), step, in, out).ok());
          ASSERT_EQ(out[0].bytes(), expected[0].bytes())
              << absl::StrCat(m, "x", n, "x", k, " flags ", bits, " ", loops->name, " threads ", threads);
        }
      }
    }
  }
}

// The relative error is at most 2^-11 for each factor, (1 + 2^-11)^2 - 1 for a product of two, and 2^-24 per term for
// sums in fp32.
TEST(CpuTf32, DiffersFromFp32WithinTheBound) {
  std::mt19937_64 random(5);
  const int64_t m = 40, n = 50, k = 300;
  std::vector<Tensor> in = {Normal(FP32, {m, k}, random), Normal(FP32, {k, n}, random)};
  const auto backend = MakeCpuBackend(1);
  std::vector<Tensor> out = {Tensor(FP32, {m, n})}, plain = out;
  ASSERT_TRUE(RunStep(*backend, Product(false, false), in, out).ok());
  ASSERT_TRUE(RunStep(*backend, Product(false, false, false), in, plain).ok());
  double worst = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitudes = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double term = in[0].Get(i * k + l) * in[1].Get(l * n + j);
        sum += term;
        magnitudes += std::abs(term);
      }
      const double bound = 0x1p-10 + 0x1p-22 + static_cast<double>(k) * 0x1p-24;
      ASSERT_LE(std::abs(out[0].Get(i * n + j) - sum), bound * magnitudes) << i << ", " << j;
      worst = std::max(worst, std::abs(out[0].Get(i * n + j) - sum) / magnitudes);
    }
  }
  EXPECT_NE(out[0].bytes(), plain[0].bytes());
  // The products really are in TF32: fp32 would be about a thousand times closer.
  EXPECT_GT(worst, 0x1p-16);
}

}  // namespace
}  // namespace weft::exec::cpu
