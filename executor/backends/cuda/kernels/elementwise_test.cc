// Tests that NaNs, infinities and numbers that are too large give the same results as on the CPU.
#include "executor/backends/cuda/kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <vector>

#include "executor/backends/cuda/kernels/access.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

// Runs the op on equal elements and returns the result. There are enough elements for threads to handle groups of
// eight, and a few single elements at the end.
double ResultOf(ElementwiseOp op, Type type, bool in_double, const std::vector<double>& inputs) {
  constexpr int64_t kElements = 4096 + 3;
  Elementwise args;
  args.op = op;
  args.elements = kElements;
  args.in_double = in_double;
  alignas(64) static double memory[4][kElements + 1];
  for (size_t i = 0; i < inputs.size(); ++i) {
    args.in[i] = {memory[i], type};
    for (int64_t e = 0; e < kElements; ++e) Store<double>(args.in[i], e, inputs[i]);
  }
  args.out[0] = {memory[3], type};
  EXPECT_EQ(Launch(args, nullptr), nullptr);
  const double first = Load<double>(args.out[0], 0);
  for (int64_t e = 0; e < kElements; ++e) {
    const double x = Load<double>(args.out[0], e);
    EXPECT_TRUE(x == first || (std::isnan(x) && std::isnan(first))) << e;
  }
  return first;
}

TEST(Elementwise, ExtremeValues) {
  for (const Type type : {Type::kFp64, Type::kFp32, Type::kBf16}) {
    const bool in_double = type == Type::kFp64;
    for (const ElementwiseOp op : {ElementwiseOp::kGelu, ElementwiseOp::kGeluTanh, ElementwiseOp::kSilu}) {
      EXPECT_EQ(ResultOf(op, type, in_double, {128}), 128);
      EXPECT_EQ(ResultOf(op, type, in_double, {-2048}), 0);
      EXPECT_EQ(ResultOf(op, type, in_double, {0}), 0);
      EXPECT_EQ(ResultOf(op, type, in_double, {kInfinity}), kInfinity);
      EXPECT_TRUE(std::isnan(ResultOf(op, type, in_double, {kNaN})));
    }
    for (const ElementwiseOp op : {ElementwiseOp::kGeluBackward, ElementwiseOp::kGeluTanhBackward}) {
      EXPECT_EQ(ResultOf(op, type, in_double, {1, 128}), 1);
      EXPECT_EQ(ResultOf(op, type, in_double, {1, -128}), 0);
      EXPECT_EQ(ResultOf(op, type, in_double, {1, 0x1p100}), 1);
      EXPECT_EQ(ResultOf(op, type, in_double, {1, -0x1p100}), 0);
      EXPECT_EQ(ResultOf(op, type, in_double, {1, 0}), 0.5);
      EXPECT_EQ(ResultOf(op, type, in_double, {1, kInfinity}), 1);
      EXPECT_TRUE(std::isnan(ResultOf(op, type, in_double, {1, kNaN})));
      EXPECT_TRUE(std::isnan(ResultOf(op, type, in_double, {kNaN, 1})));
    }
    EXPECT_TRUE(std::isnan(ResultOf(ElementwiseOp::kSiluBackward, type, in_double, {1, kNaN})));
    EXPECT_TRUE(std::isnan(ResultOf(ElementwiseOp::kSwiglu, type, in_double, {kNaN, 1})));
  }
}

}  // namespace
}  // namespace weft::exec::cuda
