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

TEST(SplitCollectives, OneStepPerTensor) {
  Program program = Read(R"(segments {
    steps { name: "first" kernel: FILL stream: COMPUTE }
    steps { name: "gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 inputs: 1 inputs: 2 outputs: 3
            outputs: 4 outputs: 5 deps: 0 collective { purpose: GATHER_WEIGHTS } }
    steps { name: "product" kernel: MATMUL stream: COMPUTE deps: 1 }
    steps { name: "sum" kernel: GROUP_ALL_REDUCE stream: COLLECTIVE inputs: 0 inputs: 1 outputs: 0 outputs: 1 deps: 2
            collective { purpose: TENSOR } } })");
  SplitCollectives(&program);
  const Segment& s = program.segments(0);
  ASSERT_EQ(s.steps_size(), 6);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(s.steps(i).name(), "gather");
    ASSERT_EQ(s.steps(i).inputs_size(), 1);
    EXPECT_EQ(s.steps(i).inputs(0), i - 1);
    EXPECT_EQ(s.steps(i).outputs(0), i + 2);
    ASSERT_EQ(s.steps(i).deps_size(), 1);
    EXPECT_EQ(s.steps(i).deps(0), 0);
  }
  EXPECT_EQ(s.steps(4).deps(0), 3);
  // Collectives of tensor parallelism stay as they are.
  EXPECT_EQ(s.steps(5).inputs_size(), 2);
  EXPECT_EQ(s.steps(5).deps(0), 4);
}

TEST(SplitCollectives, NothingToSplit) {
  Program program = Read(R"(segments { steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1
                                               collective { purpose: GATHER_WEIGHTS } } })");
  const std::string before = program.SerializeAsString();
  SplitCollectives(&program);
  EXPECT_EQ(program.SerializeAsString(), before);
}

}  // namespace
}  // namespace weft::sim
