#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

Program Read(const std::string& text) {
  Program program;
  const absl::Status read = ParseMessage(text, "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return program;
}

std::vector<std::string> Names(const Segment& segment) {
  std::vector<std::string> names;
  for (const Step& step : segment.steps()) names.push_back(step.name());
  return names;
}

TEST(DelayGathers, BehindTheBackwardOfTheBlockAbove) {
  Program program = Read(R"(segments {
    steps { name: "early" kernel: GROUP_ALL_GATHER stream: COLLECTIVE outputs: 7
        collective { purpose: GATHER_WEIGHTS } }
    steps { name: "gelu.dx" kernel: GELU_BACKWARD stream: COMPUTE }
    steps { name: "dw" kernel: MATMUL stream: COMPUTE }
    steps { name: "bias.db" kernel: BIAS_GRADIENT stream: COMPUTE }
    steps { name: "norm" kernel: LAYER_NORM stream: COMPUTE }
    steps { name: "second" kernel: GROUP_ALL_GATHER stream: COLLECTIVE outputs: 8 deps: 4
            collective { purpose: GATHER_WEIGHTS } }
    steps { name: "product" kernel: MATMUL stream: COMPUTE inputs: 7 deps: 0 }
    steps { name: "next" kernel: MATMUL stream: COMPUTE inputs: 8 deps: 5 } })");
  DelayGathers(&program);
  const Segment& s = program.segments(0);
  EXPECT_EQ(Names(s),
            (std::vector<std::string>{"gelu.dx", "dw", "bias.db", "early", "norm", "second", "product", "next"}));
  ASSERT_EQ(s.steps(3).deps_size(), 1);
  EXPECT_EQ(s.steps(3).deps(0), 2);
  // The gather for the second product of a block still hides under the first product.
  ASSERT_EQ(s.steps(5).deps_size(), 1);
  EXPECT_EQ(s.steps(5).deps(0), 4);
  EXPECT_EQ(s.steps(6).deps(0), 3);
  EXPECT_EQ(s.steps(7).deps(0), 5);
}

// If the size of parts is rounded up, the tensor is gathered with padding after it, and then read without padding.
TEST(DelayGathers, ReadersGoByThePlaceOfWhatIsGathered) {
  Program program = Read(R"(segments {
    values { name: "w" offset: 64 dtype: FP32 shape: [ 4, 4 ] }
    values { name: "w with room" offset: 64 dtype: FP32 shape: 18 }
    steps { name: "early" kernel: GROUP_ALL_GATHER stream: COLLECTIVE outputs: 1
        collective { purpose: GATHER_WEIGHTS } }
    steps { name: "bias.db" kernel: BIAS_GRADIENT stream: COMPUTE }
    steps { name: "norm" kernel: LAYER_NORM stream: COMPUTE }
    steps { name: "product" kernel: MATMUL stream: COMPUTE inputs: 0 deps: 0 } })");
  DelayGathers(&program);
  EXPECT_EQ(Names(program.segments(0)), (std::vector<std::string>{"bias.db", "early", "norm", "product"}));
}

TEST(DelayGathers, ForwardsAndOtherGathersStay) {
  Program program = Read(R"(segments {
    steps { name: "a" kernel: GROUP_ALL_GATHER stream: COLLECTIVE outputs: 7 collective { purpose: GATHER_WEIGHTS } }
    steps { kernel: LAYER_NORM stream: COMPUTE }
    steps { kernel: MATMUL stream: COMPUTE inputs: 7 deps: 0 } }
  segments {
    steps { name: "b" kernel: GROUP_ALL_GATHER stream: COLLECTIVE outputs: 7 collective { purpose: TENSOR } }
    steps { kernel: GELU_BACKWARD stream: COMPUTE }
    steps { kernel: MATMUL stream: COMPUTE inputs: 7 deps: 0 } })");
  const std::string before = program.SerializeAsString();
  DelayGathers(&program);
  EXPECT_EQ(program.SerializeAsString(), before);
}

}  // namespace
}  // namespace weft::sim
