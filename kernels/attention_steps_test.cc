// Tests steps of attention's kernels and of dropout. Correct steps pass. If one thing in a step is wrong, the error
// names it.
#include <string>
#include <vector>

#include "kernels/check_step_testing.h"

namespace weft::kernels {
namespace {

// Sequences of 4 rows, 4 heads of 3 columns; k and v have 2 heads.
const Tensor kQkv{FP32, {8, 36}}, kQ{FP32, {8, 12}}, kKv{FP32, {8, 6}}, kPairs{FP32, {8, 16}}, kMask{UINT8, {8, 16}};
const std::string kFused = "heads: 4 sequence: 4 ", kGrouped = "heads: 4 kv_heads: 2 sequence: 4 ";

TEST(AttentionStepsTest, Scores) {
  EXPECT_EQ(FindingsOf(ATTENTION_SCORES, {kQkv}, {kPairs}, kFused + "scale: 1"), "");
  EXPECT_EQ(FindingsOf(ATTENTION_SCORES, {kQkv}, {kPairs}, kFused + "scale: 1 qkv_by_head: true"), "");
  EXPECT_EQ(FindingsOf(ATTENTION_SCORES, {kQ, kKv}, {kPairs}, kGrouped + "scale: 1"), "");
  EXPECT_EQ(FindingsOf(ATTENTION_SCORES_BACKWARD, {kPairs, kQkv}, {kQkv}, kFused + "scale: 1"), "");
  EXPECT_EQ(FindingsOf(ATTENTION_SCORES_BACKWARD, {kPairs, kQ, kKv}, {kQ, kKv}, kGrouped + "scale: 1"), "");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQ, kKv}, {kPairs}, kFused), "has 2 inputs");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQ, kQ}, {kPairs}, kGrouped), "must have shape [8,24]");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQkv}, {kQkv}, kFused), "must have shape [8,16]");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQkv}, {kPairs}, "heads: 5 sequence: 4"), "must be a multiple of 3 x 5");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQkv}, {kPairs}, "heads: 0 sequence: 4"), "heads is 0");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQkv}, {kPairs}, "heads: 4 sequence: 3"), "sequence is 3");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQ, kKv}, {kPairs}, "heads: 4 kv_heads: 3 sequence: 4"), "kv_heads is 3");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQ, kKv}, {kPairs}, kGrouped + "qkv_by_head: true"), "qkv_by_head");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQkv}, {kPairs}, kFused + "causal: true"),
                "does not read attribute causal");
  ExpectFinding(FindingsOf(ATTENTION_SCORES, {kQkv}, {kMask}, kFused), "uint8 [8,16] must be fp32");
  ExpectFinding(FindingsOf(ATTENTION_SCORES_BACKWARD, {kPairs, kQ, kKv}, {kKv, kKv}, kGrouped),
                "must have the shape of");
  ExpectFinding(
      FindingsOf(ATTENTION_SCORES, {kQ, kKv}, {kPairs}, "heads: 4611686018427387904 kv_heads: 4611686018427387904"),
      "heads is");
}

TEST(AttentionStepsTest, Softmax) {
  EXPECT_EQ(FindingsOf(ATTENTION_SOFTMAX, {kPairs}, {kPairs}, kFused), "");
  EXPECT_EQ(FindingsOf(ATTENTION_SOFTMAX, {kPairs}, {kPairs}, kFused + "causal: true window: 2"), "");
  EXPECT_EQ(FindingsOf(ATTENTION_SOFTMAX_BACKWARD, {kPairs, kPairs}, {kPairs}, kFused), "");
  ExpectFinding(FindingsOf(ATTENTION_SOFTMAX, {kPairs}, {kPairs}, kFused + "window: 2"), "window is 2");
  ExpectFinding(FindingsOf(ATTENTION_SOFTMAX, {kQ}, {kQ}, kFused), "must have shape [8,16]");
  ExpectFinding(FindingsOf(ATTENTION_SOFTMAX, {kPairs}, {kQ}, kFused), "must have the shape of 'v0'");
  ExpectFinding(FindingsOf(ATTENTION_SOFTMAX_BACKWARD, {kPairs, kQ}, {kPairs}, kFused), "must have the shape of 'v0'");
  ExpectFinding(FindingsOf(ATTENTION_SOFTMAX_BACKWARD, {kPairs}, {kPairs}, kFused), "has 1 inputs");
}

TEST(AttentionStepsTest, Values) {
  EXPECT_EQ(FindingsOf(ATTENTION_VALUES, {kPairs, kQkv}, {kQ}, kFused), "");
  EXPECT_EQ(FindingsOf(ATTENTION_VALUES, {kPairs, kKv}, {kQ}, kGrouped), "");
  EXPECT_EQ(FindingsOf(ATTENTION_VALUES_BACKWARD, {kQ, kPairs, kQkv}, {kPairs, kQkv}, kFused), "");
  EXPECT_EQ(FindingsOf(ATTENTION_VALUES_BACKWARD, {kQ, kPairs, kKv}, {kPairs, kKv}, kGrouped), "");
  ExpectFinding(FindingsOf(ATTENTION_VALUES, {kPairs, kKv}, {kKv}, kGrouped), "must have shape [8,12]");
  ExpectFinding(FindingsOf(ATTENTION_VALUES, {kQ, kKv}, {kQ}, kGrouped), "must have shape [8,16]");
  ExpectFinding(FindingsOf(ATTENTION_VALUES, {kPairs, kKv}, {kQ}, kGrouped + "scale: 1"),
                "does not read attribute scale");
  ExpectFinding(FindingsOf(ATTENTION_VALUES_BACKWARD, {kQ, kPairs, kKv}, {kPairs, kQ}, kGrouped),
                "must have the shape of 'v2'");
}

TEST(AttentionStepsTest, Dropout) {
  const std::string heads = "dropout: 0.1 heads: 4 sequence: 4";
  EXPECT_EQ(FindingsOf(DROPOUT, {kPairs}, {kPairs}, "dropout: 0.1 dropout_site: 3"), "");
  EXPECT_EQ(FindingsOf(DROPOUT, {kPairs}, {kPairs}, heads), "");
  EXPECT_EQ(FindingsOf(DROPOUT_MASK, {kPairs}, {kPairs, kMask}, heads), "");
  EXPECT_EQ(FindingsOf(DROPOUT_BY_MASK, {kPairs, kMask}, {kPairs}, "dropout: 0.1"), "");
  ExpectFinding(FindingsOf(DROPOUT, {kPairs}, {kPairs, kMask}, heads), "2 outputs");
  ExpectFinding(FindingsOf(DROPOUT_MASK, {kPairs}, {kPairs, kPairs}, heads), "must be uint8");
  ExpectFinding(FindingsOf(DROPOUT_MASK, {kPairs}, {kPairs, {UINT8, {8, 12}}}, heads), "must have the shape of 'v0'");
  ExpectFinding(FindingsOf(DROPOUT_MASK, {kPairs}, {kPairs, kMask}, "dropout: 1"), "dropout is 1");
  ExpectFinding(FindingsOf(DROPOUT, {kQ}, {kQ}, heads), "must have shape [8,16]");
  ExpectFinding(FindingsOf(DROPOUT, {kPairs}, {kPairs}, "heads: 8 sequence: 2"), "sequence is 2");
  ExpectFinding(FindingsOf(DROPOUT, {kPairs}, {kPairs}, "sequence: 4"), "sequence is 4");
  ExpectFinding(FindingsOf(DROPOUT, {kPairs}, {kPairs}, heads + " whole_columns: 3"), "whole_columns is 3");
  ExpectFinding(FindingsOf(DROPOUT, {{FP32, {4, 16}}}, {{FP32, {4, 16}}}, heads), "whole microbatches");
  ExpectFinding(FindingsOf(DROPOUT_BY_MASK, {kPairs, kPairs}, {kPairs}, "dropout: 0.1"), "must be uint8");
  ExpectFinding(FindingsOf(DROPOUT_BY_MASK, {kPairs, kMask}, {kPairs}, heads), "does not read attribute");
  ExpectFinding(FindingsOf(DROPOUT_BY_MASK, {kPairs, kMask}, {kPairs}, "dropout: -1"), "dropout is -1");
}

}  // namespace
}  // namespace weft::kernels
