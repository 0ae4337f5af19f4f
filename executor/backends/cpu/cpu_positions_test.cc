// Checks kernels that move positions and samples against their definitions (docs/kernels.md), in every storage type.
// cpu_image_test.cc checks that the backward kernels are gradients.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"

namespace weft::exec::cpu {
namespace {

class CpuPositionsTest : public testing::TestWithParam<DType> {
 protected:
  KernelCase Case(Kernel kernel, std::vector<Tensor> in, std::vector<int64_t> out) const {
    KernelCase c;
    c.name = absl::StrCat(Kernel_Name(kernel), " ", DType_Name(GetParam()));
    c.step = MakeStep(kernel);
    c.in = std::move(in);
    c.out = {Tensor(GetParam(), std::move(out))};
    c.tolerance = ToleranceOf(GetParam());
    return c;
  }
  Tensor Random(std::vector<int64_t> shape) { return Normal(GetParam(), std::move(shape), random_); }

  std::mt19937_64 random_{41};
};

TEST_P(CpuPositionsTest, ColumnsSideBySide) {
  const int64_t rows = 11;
  for (int64_t a : {1, 3, 130}) {
    for (int64_t b : {1, 5, 200}) {
      KernelCase c = Case(CONCAT_COLUMNS, {Random({rows, a}), Random({rows, b})}, {rows, a + b});
      c.tolerance = 0;
      c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < a; ++i) expected[0][row * (a + b) + i] = in[0][row * a + i];
          for (int64_t i = 0; i < b; ++i) expected[0][row * (a + b) + a + i] = in[1][row * b + i];
        }
      };
      Check(c);
    }
  }
}

TEST_P(CpuPositionsTest, UpsampledFourTimes) {
  struct Size {
    int64_t samples, height, width, columns;
  };
  for (const Size s : {Size{1, 1, 1, 1}, Size{2, 3, 2, 5}, Size{3, 2, 5, 64}}) {
    const int64_t rows = s.samples * s.height * s.width;
    // Returns the source row of row `up` of the large image.
    const auto source = [=](int64_t up) {
      const int64_t x = up % (2 * s.width), y = up / (2 * s.width) % (2 * s.height);
      return (up / (4 * s.height * s.width) * s.height + y / 2) * s.width + x / 2;
    };
    KernelCase c = Case(UPSAMPLE, {Random({rows, s.columns})}, {4 * rows, s.columns});
    c.step.mutable_attributes()->set_height(s.height);
    c.step.mutable_attributes()->set_width(s.width);
    c.tolerance = 0;
    c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
      for (int64_t i = 0; i < 4 * rows * s.columns; ++i) {
        expected[0][i] = in[0][source(i / s.columns) * s.columns + i % s.columns];
      }
    };
    Check(c);
    KernelCase b = Case(UPSAMPLE_BACKWARD, {Random({4 * rows, s.columns})}, {rows, s.columns});
    *b.step.mutable_attributes() = c.step.attributes();
    b.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
      expected[0].assign(expected[0].size(), 0);
      for (int64_t i = 0; i < 4 * rows * s.columns; ++i) {
        expected[0][source(i / s.columns) * s.columns + i % s.columns] += in[0][i];
      }
    };
    Check(b);
  }
}

// Tries more columns than one task sums, and fewer.
TEST_P(CpuPositionsTest, KernelsWithOneRowPerSample) {
  const int64_t samples = 3, positions = 4, rows = samples * positions;
  for (int64_t n : {1, 6, 150}) {
    const auto check = [&](Kernel kernel, std::vector<Tensor> in, std::vector<int64_t> out,
                           const Reference& reference) {
      KernelCase c = Case(kernel, std::move(in), std::move(out));
      c.step.mutable_attributes()->set_sequence(positions);
      c.reference = reference;
      Check(c);
    };
    // Calls f(element of a tensor with one row per position, sample, column).
    const auto for_all = [=](const auto& f) {
      for (int64_t i = 0; i < rows * n; ++i) f(i, i / n / positions, i % n);
    };
    const Tensor x = Random({rows, n}), dy = Random({rows, n}), one = Random({samples, n}),
                 two = Random({samples, 2 * n});
    check(ADD_PER_SAMPLE, {x, one}, {rows, n}, [=](const std::vector<Values>& in, std::vector<Values>& expected) {
      for_all([&](int64_t i, int64_t sample, int64_t c) { expected[0][i] = in[0][i] + in[1][sample * n + c]; });
    });
    check(SUM_PER_SAMPLE, {dy}, {samples, n}, [=](const std::vector<Values>& in, std::vector<Values>& expected) {
      expected[0].assign(samples * n, 0);
      for_all([&](int64_t i, int64_t sample, int64_t c) { expected[0][sample * n + c] += in[0][i]; });
    });
    // The first n numbers of a sample's vector are scales, the others are shifts.
    check(SCALE_SHIFT, {x, two}, {rows, n}, [=](const std::vector<Values>& in, std::vector<Values>& expected) {
      for_all([&](int64_t i, int64_t sample, int64_t c) {
        expected[0][i] = in[0][i] * (1 + in[1][2 * sample * n + c]) + in[1][(2 * sample + 1) * n + c];
      });
    });
    check(SCALE_SHIFT_BACKWARD, {dy, two}, {rows, n},
          [=](const std::vector<Values>& in, std::vector<Values>& expected) {
            for_all([&](int64_t i, int64_t sample, int64_t c) {
              expected[0][i] = in[0][i] * (1 + in[1][2 * sample * n + c]);
            });
          });
    check(SCALE_SHIFT_BACKWARD_SAMPLE, {dy, x}, {samples, 2 * n},
          [=](const std::vector<Values>& in, std::vector<Values>& expected) {
            expected[0].assign(2 * samples * n, 0);
            for_all([&](int64_t i, int64_t sample, int64_t c) {
              expected[0][2 * sample * n + c] += in[0][i] * in[1][i];
              expected[0][(2 * sample + 1) * n + c] += in[0][i];
            });
          });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CpuPositionsTest, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return DType_Name(info.param); });

}  // namespace
}  // namespace weft::exec::cpu
