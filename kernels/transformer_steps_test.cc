// Tests steps of the kernels of transformers. Correct steps pass. If one detail of a step is wrong, the error names it.
#include <string>
#include <vector>

#include "kernels/check_step_testing.h"

namespace weft::kernels {
namespace {

const Tensor kX{FP32, {8, 12}}, kKv{FP32, {8, 6}}, kRow{FP32, {12}}, kColumn{FP32, {8}}, kLse{FP32, {8, 4}};

TEST(TransformerStepsTest, Load) {
  const Tensor ids{INT32, {8}};
  for (Kernel kernel : {LOAD_TOKENS, LOAD_TARGETS}) {
    EXPECT_EQ(FindingsOf(kernel, {}, {ids}, ""), "");
    EXPECT_EQ(FindingsOf(kernel, {}, {ids}, "masked: 4 mask_token: 49 vocabulary: 50"), "");
    ExpectFinding(FindingsOf(kernel, {}, {ids}, "masked: 5 mask_token: 1 vocabulary: 50"), "masked is 5");
    ExpectFinding(FindingsOf(kernel, {}, {ids}, "masked: -1 mask_token: 1 vocabulary: 50"), "masked is -1");
    ExpectFinding(FindingsOf(kernel, {}, {ids}, "masked: 1 mask_token: 50 vocabulary: 50"), "mask_token is 50");
    ExpectFinding(FindingsOf(kernel, {}, {ids}, "masked: 1 mask_token: 1 vocabulary: 49"), "vocabulary is 49");
    ExpectFinding(FindingsOf(kernel, {}, {ids}, "mask_token: 1"), "mask_token is 1; it must be 0");
    ExpectFinding(FindingsOf(kernel, {}, {ids}, "heads: 1"), "does not read attribute heads");
  }
}

TEST(TransformerStepsTest, Attention) {
  const std::string good = "heads: 4 kv_heads: 2 sequence: 4 causal: true window: 3 scale: 1";
  EXPECT_EQ(FindingsOf(ATTENTION, {kX, kKv, kKv}, {kX, kLse}, good), "");
  EXPECT_EQ(FindingsOf(ATTENTION_BACKWARD, {kX, kX, kKv, kKv, kX, kLse}, {kX, kKv, kKv}, good), "");
  EXPECT_EQ(FindingsOf(ATTENTION, {{FP32, {8, 36}}}, {kX, kLse}, "heads: 4 sequence: 4 scale: 1"), "");
  ExpectFinding(FindingsOf(ATTENTION, {kX, kKv}, {kX, kLse}, good), "has 2 inputs");
  ExpectFinding(FindingsOf(ATTENTION, {kX, kKv, kX}, {kX, kLse}, good), "must have shape [8,6]");
  ExpectFinding(FindingsOf(ATTENTION, {kX, kKv, kKv}, {kX, kLse}, "heads: 4 kv_heads: 3 sequence: 4"), "kv_heads is 3");
  ExpectFinding(FindingsOf(ATTENTION, {kX, kKv, kKv}, {kX, kLse}, "heads: 4 sequence: 4"), "kv_heads is 0");
  ExpectFinding(FindingsOf(ATTENTION, {kX, kKv, kKv}, {kX, kLse}, "heads: 4 kv_heads: 2 sequence: 4 window: 3"),
                "window is 3");
  ExpectFinding(FindingsOf(ATTENTION, {{FP32, {8, 36}}}, {kX, kLse}, "heads: 4 kv_heads: 4 sequence: 4"),
                "takes 3 and 2; kv_heads is 4");
  ExpectFinding(FindingsOf(ATTENTION_BACKWARD, {kX, kX, kKv, kKv, kX, kLse}, {kX, kKv, kX}, good),
                "must have the shape of");
  ExpectFinding(FindingsOf(ATTENTION_BACKWARD, {kX, kX, kKv, kKv, kX, kLse}, {kX}, good), "outputs");
}

TEST(TransformerStepsTest, RmsNorm) {
  EXPECT_EQ(FindingsOf(RMS_NORM, {kX, kRow}, {kX, kColumn}, "epsilon: 1e-5"), "");
  EXPECT_EQ(FindingsOf(RMS_NORM_BACKWARD, {kX, kX, kRow, kColumn}, {kX}, ""), "");
  EXPECT_EQ(FindingsOf(RMS_NORM_BACKWARD_WEIGHT, {kX, kX, kColumn}, {kRow}, ""), "");
  ExpectFinding(FindingsOf(RMS_NORM, {kX, kRow}, {kX, kColumn}, "epsilon: -1"), "epsilon is -1");
  ExpectFinding(FindingsOf(RMS_NORM, {kX, kColumn}, {kX, kColumn}, ""), "must have shape [12]");
  ExpectFinding(FindingsOf(RMS_NORM, {kX, kRow}, {kX, {BF16, {8}}}, ""), "must be");
  ExpectFinding(FindingsOf(RMS_NORM, {kX, kRow}, {kX}, ""), "1 outputs");
  ExpectFinding(FindingsOf(RMS_NORM_BACKWARD, {kKv, kX, kRow, kColumn}, {kX}, ""), "must have shape [8,12]");
  ExpectFinding(FindingsOf(RMS_NORM_BACKWARD_WEIGHT, {kX, kX, kColumn}, {kColumn}, ""), "must have shape [12]");
}

TEST(TransformerStepsTest, Rope) {
  const auto rope = [](const std::string& rest) {
    return FindingsOf(ROPE, {kX}, {kX}, absl::StrCat("sequence: 4 base: 10000 magnitude: 1 ", rest));
  };
  EXPECT_EQ(rope("head_size: 6"), "");
  EXPECT_EQ(rope("head_size: 4 factor: 8 ramp_low: 1 ramp_high: 4 ramp_positions: 8192 inverse: true"), "");
  ExpectFinding(rope("head_size: 3"), "head_size is 3");
  ExpectFinding(rope("head_size: 8"), "head_size is 8");
  ExpectFinding(rope("head_size: 6 factor: 8"), "ramp_low is 0; it must be below ramp_high");
  ExpectFinding(rope("head_size: 6 ramp_high: 1"), "with factor 0, ramp_low, ramp_high and ramp_positions must be 0");
  ExpectFinding(rope("head_size: 6 factor: nan"), "factor is nan");
  ExpectFinding(FindingsOf(ROPE, {kX}, {kX}, "sequence: 3 base: 1 head_size: 6"), "sequence is 3");
  ExpectFinding(FindingsOf(ROPE, {kX}, {kX}, "sequence: 4 base: 1 head_size: 6"), "base is 1");
  ExpectFinding(FindingsOf(ROPE, {kX}, {kX}, "sequence: 4 base: 10 head_size: 6"), "magnitude is 0");
  ExpectFinding(FindingsOf(ROPE, {kX}, {kKv}, "sequence: 4 base: 10 head_size: 6 magnitude: 1"), "shape of");
}

TEST(TransformerStepsTest, Swiglu) {
  EXPECT_EQ(FindingsOf(SWIGLU, {kX, kX}, {kX}, ""), "");
  EXPECT_EQ(FindingsOf(SWIGLU_BACKWARD, {kX, kX, kX}, {kX, kX}, ""), "");
  ExpectFinding(FindingsOf(SWIGLU, {kX, kKv}, {kX}, ""), "must have the shape of");
  ExpectFinding(FindingsOf(SWIGLU, {kX}, {kX}, ""), "1 inputs");
  ExpectFinding(FindingsOf(SWIGLU_BACKWARD, {kX, kX, kX}, {kX, kKv}, ""), "must have the shape of");
  ExpectFinding(FindingsOf(SWIGLU, {kX, kX}, {kX}, "scale: 1"), "does not read attribute scale");
}

}  // namespace
}  // namespace weft::kernels
