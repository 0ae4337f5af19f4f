#include "kernels/kernel_key.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::kernels {
namespace {

Segment Parse(const std::string& text) {
  Segment segment;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &segment)) << text;
  return segment;
}

std::string KeyOf(const std::string& text) {
  const Segment segment = Parse(text);
  return KernelKey(segment, segment.steps(0));
}

constexpr char kProduct[] = R"(values { dtype: BF16 shape: 64 shape: 32 } values { dtype: BF16 shape: 128 shape: 32 }
                               values { dtype: BF16 shape: 64 shape: 128 } values { dtype: BF16 shape: 128 })";

TEST(KernelKey, DescribesProducts) {
  EXPECT_EQ(KeyOf(std::string(kProduct) +
                  "steps { kernel: MATMUL inputs: 0 inputs: 1 inputs: 3 outputs: 2 attributes { transpose_b: true } }"),
            "MATMUL bf16*3>bf16 tb 64x128x32");
  // dW = xᵀ dy, added to the old dW.
  EXPECT_EQ(KeyOf(std::string(kProduct) + "steps { kernel: MATMUL inputs: 2 inputs: 0 outputs: 1 accumulate: true "
                                          "attributes { transpose_a: true } }"),
            "MATMUL bf16*2>bf16 ta += 128x32x64");
}

TEST(KernelKey, DescribesAttention) {
  const std::string grouped =
      "values { dtype: BF16 shape: 64 shape: 128 } values { dtype: BF16 shape: 64 shape: 32 } "
      "values { dtype: FP32 shape: 64 shape: 8 }"
      "steps { kernel: ATTENTION inputs: 0 inputs: 1 inputs: 1 outputs: 0 outputs: 2 "
      "attributes { heads: 8 kv_heads: 2 sequence: 16 causal: true dropout: 0.1 scale: 0.25 } }";
  EXPECT_EQ(KeyOf(grouped), "ATTENTION bf16*3>bf16,fp32 causal dropout 4x16x8x2x16");
}

TEST(KernelKey, DescribesOtherKernelsByTheirShapes) {
  EXPECT_EQ(KeyOf("values { dtype: BF16 shape: 8 shape: 4 } values { dtype: BF16 shape: 4 } "
                  "values { dtype: FP32 shape: 8 } steps { kernel: LAYER_NORM inputs: 0 inputs: 1 inputs: 1 "
                  "outputs: 0 outputs: 2 outputs: 2 attributes { epsilon: 1e-5 } }"),
            "LAYER_NORM bf16*3>bf16,fp32*2 8x4,4,8");
  EXPECT_EQ(KeyOf("values { dtype: FP32 } steps { kernel: FILL outputs: 0 }"), "FILL ->fp32 1");
}

// Options that do not affect the time are not in the key.
TEST(KernelKey, SeedsAndScalesDoNotCount) {
  const std::string values = "values { dtype: FP32 shape: 8 shape: 8 } ";
  const std::string step = "steps { kernel: DROPOUT inputs: 0 outputs: 0 attributes { dropout: ";
  EXPECT_EQ(KeyOf(values + step + "0.1 dropout_site: 3 } }"), KeyOf(values + step + "0.2 dropout_site: 5 } }"));
  EXPECT_NE(KeyOf(values + step + "0 } }"), KeyOf(values + step + "0.1 } }"));
}

}  // namespace
}  // namespace weft::kernels
