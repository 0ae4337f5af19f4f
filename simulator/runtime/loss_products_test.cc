#include "simulator/runtime/loss_products.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::set<std::pair<int, int>> Found(const std::string& text) {
  Program program;
  const absl::Status read = ParseMessage(text, "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return LossProducts(program);
}

TEST(LossProducts, FindsTheProductThatComputesLogits) {
  // The product of a layer, the product of the head, and the loss over the head's columns.
  EXPECT_THAT(Found(R"(segments { name: "forward"
                values { operand: 0 } values { operand: 1 } values { operand: 2 } values { operand: 2 }
                steps { kernel: MATMUL inputs: [0, 0] outputs: 1 }
                steps { kernel: MATMUL inputs: [1, 0] outputs: 2 }
                steps { kernel: CROSS_ENTROPY_PARTIAL inputs: 3 outputs: 0 } })"),
              ElementsAre(Pair(0, 1)));
}

TEST(LossProducts, FindsProductsThatReadTheGradientOfLogits) {
  EXPECT_THAT(Found(R"(segments { name: "other" }
                segments { name: "backward"
                values { operand: 0 } values { operand: 1 } values { operand: 2 }
                steps { kernel: CROSS_ENTROPY_BACKWARD inputs: 0 outputs: 0 }
                steps { kernel: MATMUL inputs: [0, 2] outputs: 1 }
                steps { kernel: MATMUL inputs: [2, 0] outputs: 2 }
                steps { kernel: RMS_NORM_BACKWARD inputs: 1 outputs: 0 }
                steps { kernel: MATMUL inputs: [0, 2] outputs: 1 } })"),
              ElementsAre(Pair(1, 1), Pair(1, 2)));
}

TEST(LossProducts, LogitsThatNoProductMadeAreNone) {
  EXPECT_THAT(Found(R"(segments { name: "s"
                values { operand: 0 } values { operand: 1 }
                steps { kernel: MATMUL inputs: [1, 1] outputs: 0 }
                steps { kernel: ADD inputs: [1, 1] outputs: 0 }
                steps { kernel: CROSS_ENTROPY inputs: 0 outputs: 1 } })"),
              IsEmpty());
}

}  // namespace
}  // namespace weft::sim
