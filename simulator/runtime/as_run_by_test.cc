#include "simulator/runtime/as_run_by.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

// A program with one product, of a gathered activation and a weight.
Program OneProduct() {
  return Parse<Program>(R"(
    segments { name: "forward" operands { name: "part" } operands { name: "whole" } operands { name: "w" }
      values { operand: 0 shape: 2 shape: 8 } values { operand: 1 shape: 8 shape: 8 }
      values { name: "w" operand: 2 shape: 8 shape: 8 } values { operand: 1 offset: 128 shape: 8 shape: 8 }
      steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
      steps { name: "product" kernel: MATMUL inputs: [1, 2] outputs: 3 deps: 0 } }
    templates { buffers { name: "part" } buffers { name: "whole" } buffers { name: "w" role: PARAM }
      body { id: 0 kind: FORWARD segment: 0 operands: [0, 1, 2] } })");
}

TEST(AsRunBy, ReturnsNothingIfNothingChanges) {
  EXPECT_FALSE(AsRunBy(Runtime(), {90}, OneProduct()).has_value());
  EXPECT_FALSE(AsRunBy(Parse<Runtime>("tensor_pieces: 1"), {90}, OneProduct()).has_value());
  EXPECT_FALSE(AsRunBy(Parse<Runtime>("kernels { kernel: 'MATMUL' factor_bytes: 2 }"), {90}, OneProduct()).has_value());
}

TEST(AsRunBy, FormsOfTheDeviceDecide) {
  const Runtime gathers =
      Parse<Runtime>("kernels { kernel: 'GROUP_ALL_GATHER' bytes: 0.5 from_compute_capability: 90 }");
  EXPECT_FALSE(AsRunBy(gathers, {80}, OneProduct()).has_value());
  const std::optional<Program> halved = AsRunBy(gathers, {90}, OneProduct());
  ASSERT_TRUE(halved.has_value());
  const Segment& segment = halved->segments(0);
  EXPECT_EQ(segment.values(segment.steps(0).outputs(0)).shape(0), 32);

  const Runtime casts = Parse<Runtime>(
      "kernels { kernel: 'MATMUL' factor_bytes: 2 weights_cast_once: true below_compute_capability: 100 }");
  EXPECT_FALSE(AsRunBy(casts, {100}, OneProduct()).has_value());
  const std::optional<Program> cast = AsRunBy(casts, {90}, OneProduct());
  ASSERT_TRUE(cast.has_value());
  ASSERT_EQ(cast->segments_size(), 2);
  EXPECT_EQ(cast->segments(1).steps(1).kernel(), CAST);
  EXPECT_EQ(cast->segments(1).steps(1).work().bytes(), 2 * 2 * 64);
}

// The devices are a V100 and an H100, and only one of the two casts weights.
TEST(AsRunBy, AnyKindOfDeviceMayCastWeights) {
  const Runtime casts = Parse<Runtime>(
      "kernels { kernel: 'MATMUL' factor_bytes: 2 weights_cast_once: true "
      "from_compute_capability: 90 }");
  EXPECT_FALSE(AsRunBy(casts, {70}, OneProduct()).has_value());
  const std::optional<Program> cast = AsRunBy(casts, {70, 90}, OneProduct());
  ASSERT_TRUE(cast.has_value());
  EXPECT_EQ(cast->segments(1).steps(1).kernel(), CAST);
}

// weft's executor computes bias gradients where the compiler puts them. Other frameworks compute them after the
// products.
TEST(AsRunBy, BiasesAreSummedUpBehindTheProductsByOthers) {
  const Program program = Parse<Program>(R"(segments { name: "backward" operands { name: "a" }
    values { shape: 8 } values { offset: 64 shape: 8 } values { offset: 128 shape: 8 } values { offset: 192 shape: 8 }
    steps { kernel: BIAS_GRADIENT inputs: 0 outputs: 3 } steps { kernel: MATMUL inputs: [0, 1] outputs: 2 } })");
  const std::optional<Program> last = AsRunBy(Runtime(), {80}, program);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->segments(0).steps(1).kernel(), BIAS_GRADIENT);
  EXPECT_FALSE(AsRunBy(Parse<Runtime>("joins_from_compute_capability: 80"), {70}, program).has_value());
}

// AsRunBy cuts a gather into pieces before it scales the pieces.
TEST(AsRunBy, PiecesAreSmallerToo) {
  const std::optional<Program> made =
      AsRunBy(Parse<Runtime>("tensor_pieces: 4 kernels { kernel: 'GROUP_ALL_GATHER' bytes: 0.5 }"), {90}, OneProduct());
  ASSERT_TRUE(made.has_value());
  const Segment& segment = made->segments(0);
  ASSERT_EQ(segment.steps_size(), 3);
  EXPECT_EQ(segment.values(segment.steps(0).outputs(0)).shape(0), 8);
  EXPECT_EQ(segment.values(segment.steps(1).outputs(0)).shape(0), 24);
}

}  // namespace
}  // namespace weft::sim
