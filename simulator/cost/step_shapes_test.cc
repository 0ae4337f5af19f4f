#include "simulator/cost/step_shapes.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

// Expects these shapes for the one step of `text` on `values`.
void Expect(const std::string& values, const std::string& text, int64_t rows, int64_t columns, int64_t depth,
            int64_t batch) {
  SCOPED_TRACE(text);
  Segment segment;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(values, &segment));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, segment.add_steps()));
  const StepShapes shapes = ShapesOf(segment, segment.steps(0));
  EXPECT_EQ(shapes.rows, rows);
  EXPECT_EQ(shapes.columns, columns);
  EXPECT_EQ(shapes.depth, depth);
  EXPECT_EQ(shapes.batch, batch);
}

TEST(StepShapes, Products) {
  const std::string values = "values { shape: 6 shape: 4 } values { shape: 4 shape: 8 } values { shape: 6 shape: 8 }";
  Expect(values, "kernel: MATMUL inputs: 0 inputs: 1 outputs: 2 work { flops: 384 }", 6, 8, 4, 1);
  // The gradient of a weight: the first factor is transposed, [4 x 6].
  const std::string weight = "values { shape: 6 shape: 4 } values { shape: 6 shape: 8 } values { shape: 4 shape: 8 }";
  Expect(weight, "kernel: MATMUL inputs: 0 inputs: 1 outputs: 2 work { flops: 384 } attributes { transpose_a: true }",
         4, 8, 6, 1);
  Expect(values, "kernel: GELU inputs: 0 outputs: 0 work { bytes: 48 }", 0, 0, 0, 0);
}

TEST(StepShapes, AttentionIsByHead) {
  // Two samples of 8 rows, 4 heads of depth 16.
  const std::string values =
      "values { shape: 16 shape: 192 } values { shape: 16 shape: 64 } values { shape: 16 shape: 4 }"
      "values { shape: 16 shape: 32 }";
  const std::string attributes = "work { flops: 1 } attributes { heads: 4 sequence: 8 }";
  // With the attribute kv_heads, q, k and v are separate tensors.
  const std::string apart = "work { flops: 1 } attributes { heads: 4 kv_heads: 4 sequence: 8 }";
  Expect(values, "kernel: ATTENTION inputs: 0 outputs: 1 outputs: 2 " + attributes, 8, 8, 16, 8);
  Expect(values, "kernel: ATTENTION_BACKWARD inputs: 1 inputs: 0 inputs: 1 inputs: 2 outputs: 0 " + attributes, 8, 8,
         16, 8);
  Expect(values, "kernel: ATTENTION_SCORES inputs: 0 outputs: 3 " + attributes, 8, 8, 16, 8);
  Expect(values, "kernel: ATTENTION_SCORES inputs: 1 inputs: 1 outputs: 3 " + apart, 8, 8, 16, 8);
  Expect(values, "kernel: ATTENTION_SCORES_BACKWARD inputs: 3 inputs: 0 outputs: 0 " + attributes, 8, 8, 16, 8);
  Expect(values, "kernel: ATTENTION_SCORES_BACKWARD inputs: 3 inputs: 1 inputs: 1 outputs: 1 outputs: 1 " + apart, 8, 8,
         16, 8);
  Expect(values, "kernel: ATTENTION_VALUES inputs: 3 inputs: 0 outputs: 1 " + attributes, 8, 8, 16, 8);
  Expect(values, "kernel: ATTENTION_VALUES_BACKWARD inputs: 1 inputs: 3 inputs: 0 outputs: 3 outputs: 0 " + attributes,
         8, 8, 16, 8);
  // Without the attributes, which every verified program has, there is no product.
  Expect(values, "kernel: ATTENTION inputs: 0 outputs: 1 work { flops: 1 }", 0, 0, 0, 0);
}

TEST(StepShapes, ConvolutionsByTheirFlops) {
  // A convolution with 32 positions, 4 input channels, 8 output channels, and a kernel of 3 x 3.
  const std::string values =
      "values { shape: 32 shape: 4 } values { shape: 8 shape: 4 shape: 3 shape: 3 } values { shape: 32 shape: 8 }";
  const std::string work = "work { flops: 18432 }";
  Expect(values, "kernel: CONV2D inputs: 0 inputs: 1 outputs: 2 " + work, 32, 8, 36, 1);
  Expect(values, "kernel: CONV2D_BACKWARD inputs: 2 inputs: 1 outputs: 0 " + work, 32, 4, 72, 1);
  Expect(values, "kernel: CONV2D_BACKWARD_WEIGHT inputs: 2 inputs: 0 outputs: 1 " + work, 8, 36, 32, 1);
}

}  // namespace
}  // namespace weft::sim
