#include "executor/interface/step_tensors.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TensorView View(DType dtype, const std::vector<int64_t>& shape) { return {nullptr, dtype, shape}; }

std::string Refusal(const std::vector<TensorView>& in, const std::vector<TensorView>& out, uint32_t floating,
                    uint32_t integer = 0) {
  Step step;
  step.set_name("h.0.mlp");
  step.set_kernel(MATMUL);
  return std::string(CheckStepTensors("CPU", step, in, out, 2, 1, floating, integer).message());
}

TEST(StepTensors, TensorsAreMatricesOfTheirLastExtent) {
  const std::vector<int64_t> cube = {2, 3, 5}, row = {7}, scalar = {}, empty = {4, 0};
  EXPECT_EQ(Rows(View(FP32, cube)), 6);
  EXPECT_EQ(Columns(View(FP32, cube)), 5);
  EXPECT_EQ(Rows(View(FP32, row)), 1);
  EXPECT_EQ(Columns(View(FP32, scalar)), 1);
  EXPECT_EQ(Rows(View(FP32, scalar)), 1);
  EXPECT_EQ(Rows(View(FP32, empty)), 0);
  const std::vector<int64_t> matrix = {6, 5}, other = {5, 6};
  EXPECT_TRUE(SameShape(View(FP32, cube), View(BF16, matrix)));
  EXPECT_FALSE(SameShape(View(FP32, matrix), View(FP32, other)));
}

TEST(StepTensors, RefusesCountsAndTypesByPlace) {
  const std::vector<int64_t> shape = {2, 2};
  const TensorView real = View(BF16, shape), whole = View(INT32, shape), bytes = View(UINT8, shape);
  EXPECT_EQ(Refusal({real, whole}, {real}, 0b101, 0b010), "");
  EXPECT_EQ(Refusal({real}, {real}, 0b111),
            "step 'h.0.mlp', kernel MATMUL: takes 2 inputs and 1 outputs, given 1 and 1");
  EXPECT_EQ(Refusal({real, whole}, {real}, 0b111),
            "step 'h.0.mlp', kernel MATMUL: input 1 is INT32; the CPU backend takes FP64, FP32, BF16 or FP16");
  EXPECT_EQ(Refusal({real, whole}, {bytes}, 0b101, 0b010),
            "step 'h.0.mlp', kernel MATMUL: output 0 is UINT8; the CPU backend takes FP64, FP32, BF16 or FP16");
  EXPECT_EQ(Refusal({real, real}, {real}, 0, 0b010),
            "step 'h.0.mlp', kernel MATMUL: input 1 is BF16; it must be INT32");
  // Tensors that no bit names are not checked.
  EXPECT_EQ(Refusal({bytes, bytes}, {bytes}, 0), "");
}

TEST(StepTensors, FactorsOfAProductInTf32AreStoredInFp32) {
  const std::vector<int64_t> shape = {2, 2};
  const TensorView single = View(FP32, shape), half = View(BF16, shape);
  Step step;
  step.set_name("h.0.mlp");
  step.set_kernel(MATMUL);
  EXPECT_TRUE(CheckTf32Factors(step, {single, half}).ok());
  step.mutable_attributes()->set_tf32(true);
  // The bias may have any dtype.
  EXPECT_TRUE(CheckTf32Factors(step, {single, single, half}).ok());
  EXPECT_EQ(CheckTf32Factors(step, {single, half}).message(),
            "step 'h.0.mlp', kernel MATMUL: input 1 is BF16; factors of a product in TF32 are stored in FP32");
  EXPECT_EQ(CheckTf32Factors(step, {View(FP64, shape), single}).message(),
            "step 'h.0.mlp', kernel MATMUL: input 0 is FP64; factors of a product in TF32 are stored in FP32");
}

StepAttributes Heads(int64_t heads, int64_t kv_heads, int64_t sequence) {
  StepAttributes attributes;
  attributes.set_heads(heads);
  attributes.set_kv_heads(kv_heads);
  attributes.set_sequence(sequence);
  return attributes;
}

TEST(StepTensors, PairsAreRowsOfWholeSequencesByHeadsTimesSequence) {
  const std::vector<int64_t> good = {12, 24}, half = {10, 24}, wide = {12, 28};
  EXPECT_TRUE(GoodPairs(Heads(4, 0, 6), View(FP32, good)));
  EXPECT_FALSE(GoodPairs(Heads(4, 0, 6), View(FP32, half)));
  EXPECT_FALSE(GoodPairs(Heads(4, 0, 6), View(FP32, wide)));
  EXPECT_FALSE(GoodPairs(Heads(0, 0, 6), View(FP32, good)));
  EXPECT_FALSE(GoodPairs(Heads(4, 0, 0), View(FP32, good)));
}

TEST(StepTensors, QueriesAreAsWideAsTheHeadsOfWhatTheyMeet) {
  const std::vector<int64_t> qkv = {12, 96}, keys = {12, 16}, odd = {12, 18};
  // For qkv, a third of its columns. For k or v alone, which have fewer heads, as many times more columns.
  EXPECT_EQ(QueryColumns(Heads(4, 0, 6), View(FP32, qkv), 12), 32);
  EXPECT_EQ(QueryColumns(Heads(4, 2, 6), View(FP32, keys), 12), 32);
  EXPECT_EQ(QueryColumns(Heads(4, 0, 6), View(FP32, qkv), 6), 0);
  EXPECT_EQ(QueryColumns(Heads(4, 3, 6), View(FP32, odd), 12), 0);
  EXPECT_EQ(QueryColumns(Heads(4, 4, 6), View(FP32, odd), 12), 0);
  EXPECT_EQ(QueryColumns(Heads(0, 0, 6), View(FP32, qkv), 12), 0);
}

}  // namespace
}  // namespace weft::exec
