// Checks kernels that move positions and samples against their definitions (docs/kernels.md), in every storage type,
// and checks what they refuse. cpu_image_test.cc checks that the backward kernels are gradients.
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
TEST_P(CpuPositionsTest, WhatASampleHas) {
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
    // The first n columns of a sample scale, the others shift.
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

std::string ErrorOf(Kernel kernel, const std::vector<std::vector<int64_t>>& in, const std::vector<int64_t>& out,
                    const StepAttributes& attributes) {
  Step step = MakeStep(kernel);
  *step.mutable_attributes() = attributes;
  std::vector<Tensor> inputs, outputs = {Tensor(FP32, out)};
  for (const std::vector<int64_t>& shape : in) inputs.push_back(Tensor(FP32, shape));
  const absl::Status status = RunStep(*MakeCpuBackend(1), step, inputs, outputs);
  return status.ok() ? "ok" : std::string(status.message());
}

TEST(CpuPositionsRefusalTest, ShapesThatDoNotBelongTogether) {
  StepAttributes none, sequence, sides, columns;
  sequence.set_sequence(4);
  for (const StepAttributes& attributes : {none, sequence}) {
    EXPECT_NE(
        ErrorOf(ADD_PER_SAMPLE, {{6, 2}, {1, 2}}, {6, 2}, attributes).find("6 rows do not divide into samples of"),
        std::string::npos);
    EXPECT_NE(ErrorOf(SUM_PER_SAMPLE, {{6, 2}}, {1, 2}, attributes).find("6 rows do not divide into samples of"),
              std::string::npos);
  }
  EXPECT_EQ(ErrorOf(SUM_PER_SAMPLE, {{8, 2}}, {2, 2}, sequence), "ok");
  // The backend refuses sides whose product overflows, also if it overflows to 0.
  for (const int64_t height : {int64_t{0}, int64_t{-3}, int64_t{4}, int64_t{1} << 62}) {
    sides.set_height(height);
    sides.set_width(height >= 4 ? 4 : 3);
    EXPECT_NE(ErrorOf(UPSAMPLE, {{6, 2}}, {24, 2}, sides).find("6 rows are no images of"), std::string::npos) << height;
    EXPECT_NE(ErrorOf(UPSAMPLE_BACKWARD, {{24, 2}}, {6, 2}, sides).find("6 rows are no images of"), std::string::npos);
  }
  sides.set_height(2);
  sides.set_width(3);
  EXPECT_EQ(ErrorOf(UPSAMPLE, {{6, 2}}, {24, 2}, sides), "ok");
  columns.set_groups(2);
  EXPECT_EQ(ErrorOf(SLICE_COLUMNS, {{6, 2}}, {3, 4}, columns), "ok");
  for (const int64_t rows : {2, 4}) {
    EXPECT_NE(ErrorOf(SLICE_COLUMNS, {{6, 2}}, {rows, 4}, columns).find("are not 2 times the output's"),
              std::string::npos);
  }
  for (const int64_t first : {-1, 1}) {
    columns.set_first_column(first);
    EXPECT_NE(ErrorOf(SLICE_COLUMNS, {{6, 2}}, {3, 4}, columns).find("are not among the input's 4"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::exec::cpu
