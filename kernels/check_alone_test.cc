// Tests the checks of steps without a program, in particular of attributes that otherwise must agree with the program.
#include "kernels/check_alone.h"

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "kernels/check_step_testing.h"

namespace weft::kernels {
namespace {

std::string FaultOf(Kernel kernel, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                    const std::string& attributes) {
  Step step;
  step.set_kernel(kernel);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(attributes, step.mutable_attributes())) << attributes;
  std::vector<StepTensor> inputs, outputs;
  for (const Tensor& tensor : in) inputs.push_back({"in", tensor.dtype, tensor.shape});
  for (const Tensor& tensor : out) outputs.push_back({"out", tensor.dtype, tensor.shape});
  return CheckAlone(step, inputs, outputs);
}

const Tensor kX{FP32, {8, 12}}, kHalf{BF16, {8, 12}}, kDouble{FP64, {8, 12}}, kIds{INT32, {8}};

TEST(CheckAloneTest, NoKernelDoesWithoutTensors) {
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const auto kernel = static_cast<Kernel>(Kernel_descriptor()->value(i)->number());
    EXPECT_NE(FaultOf(kernel, {}, {}, ""), "") << Kernel_Name(kernel);
  }
}

TEST(CheckAloneTest, FactorsOfTf32AreStoredInFp32) {
  const Tensor square{FP32, {8, 8}}, half{BF16, {8, 8}};
  EXPECT_EQ(FaultOf(MATMUL, {square, kX}, {kX}, ""), "");
  EXPECT_EQ(FaultOf(MATMUL, {square, kX}, {kHalf}, "tf32: true"), "");
  ExpectFinding(FaultOf(MATMUL, {square, kHalf}, {kX}, "tf32: true"), "not both stored in fp32");
  ExpectFinding(FaultOf(MATMUL, {half, kX}, {kX}, "tf32: true"), "not both stored in fp32");
}

TEST(CheckAloneTest, TheVocabularyIsAmongTheColumns) {
  const Tensor lse{FP32, {8}}, losses{FP64, {3}}, pairs{FP32, {8, 2}};
  EXPECT_EQ(FaultOf(CROSS_ENTROPY, {kX, kIds}, {lse, losses}, "vocabulary: 12"), "");
  ExpectFinding(FaultOf(CROSS_ENTROPY, {kX, kIds}, {lse, losses}, "vocabulary: 13"), "vocabulary is 13");
  ExpectFinding(FaultOf(CROSS_ENTROPY_PARTIAL, {kX, kIds}, {pairs}, "vocabulary: 13"), "vocabulary is 13");
  // If a row is split, other ranks have more of its columns.
  EXPECT_EQ(FaultOf(CROSS_ENTROPY_PARTIAL, {kX, kIds}, {pairs}, "vocabulary: 13 column_shift {}"), "");
}

TEST(CheckAloneTest, DropoutOfHeadsIsOfWholeSequences) {
  EXPECT_EQ(FaultOf(DROPOUT, {kX}, {kX}, "dropout: 0.5"), "");
  EXPECT_EQ(FaultOf(DROPOUT, {kX}, {kX}, "dropout: 0.5 heads: 3 sequence: 4"), "");
  ExpectFinding(FaultOf(DROPOUT, {kX}, {kX}, "dropout: 0.5 heads: 3"), "sequence is 0");
  ExpectFinding(FaultOf(DROPOUT, {kX}, {kX}, "dropout: 0.5 heads: 4 sequence: 4"), "must have shape [8,16]");
  ExpectFinding(FaultOf(DROPOUT, {kX}, {kX}, "dropout: 0.5 sequence: -1"), "sequence is -1");
}

TEST(CheckAloneTest, MaskedTokensAreAmongThoseLoaded) {
  EXPECT_EQ(FaultOf(LOAD_TOKENS, {}, {kIds}, "masked: 8 mask_token: 3 vocabulary: 4"), "");
  ExpectFinding(FaultOf(LOAD_TOKENS, {}, {kIds}, "masked: 9 mask_token: 3 vocabulary: 4"), "masked is 9");
  ExpectFinding(FaultOf(LOAD_TOKENS, {}, {kIds}, "masked: -1 mask_token: 3 vocabulary: 4"), "masked is -1");
  ExpectFinding(FaultOf(LOAD_TOKENS, {}, {kIds}, "masked: 1 mask_token: 4 vocabulary: 4"), "mask_token is 4");
}

TEST(CheckAloneTest, StochasticRoundingIsOfFp32ToHalves) {
  const auto fault = [](const Tensor& state, std::vector<Tensor> param, const std::string& attributes) {
    std::vector<Tensor> out = {state};
    out.insert(out.end(), param.begin(), param.end());
    return FaultOf(SGD_STEP, {state, state}, out, attributes);
  };
  EXPECT_EQ(fault(kX, {kHalf}, ""), "");
  EXPECT_EQ(fault(kX, {kHalf}, "rounding_site: 1"), "");
  ExpectFinding(fault(kX, {}, "rounding_site: 1"), "rounding_site is 1; it must be 0");
  ExpectFinding(fault(kX, {kX}, "rounding_site: 1"), "rounding_site is 1; it must be 0");
  ExpectFinding(fault(kDouble, {kHalf}, "rounding_site: 1"), "must be fp32");
  // A gradient in fp64 would make the step compute in fp64.
  ExpectFinding(FaultOf(SGD_STEP, {kDouble, kX}, {kX, kHalf}, "rounding_site: 1"), "must not be fp64");
}

TEST(CheckAloneTest, ShiftsAreNotNegative) {
  const Tensor slice{FP32, {8, 2}};
  EXPECT_EQ(FaultOf(SLICE_COLUMNS, {kX}, {slice}, "column_shift { terms { axis: 'x' stride: 2 } }"), "");
  ExpectFinding(FaultOf(SLICE_COLUMNS, {kX}, {slice}, "column_shift { terms { axis: 'x' stride: -2 } }"), "stride -2");
  ExpectFinding(
      FaultOf(POSITION_EMBEDDING, {{FP32, {4, 12}}}, {kX}, "sequence: 4 row_shift { terms { axis: 'x' stride: -4 } }"),
      "stride -4");
}

}  // namespace
}  // namespace weft::kernels
