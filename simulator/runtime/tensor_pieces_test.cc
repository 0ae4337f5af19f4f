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

// gather -> product -> gelu -> product -> scatter -> norm
Program Layer() {
  return Read(R"(segments {
    name: "layer"
    operands { bytes: 4096 access: READ_WRITE }
    values { name: "part" dtype: BF16 shape: 8 shape: 10 } values { name: "whole" dtype: BF16 shape: 32 shape: 10 }
    values { name: "wide" dtype: BF16 shape: 32 shape: 40 } values { name: "sum" dtype: BF16 shape: 32 shape: 10 }
    steps { name: "gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1
            collective { purpose: TENSOR algorithm: "ring" } }
    steps { name: "up" kernel: MATMUL stream: COMPUTE inputs: 1 outputs: 2 deps: 0 }
    steps { name: "gelu" kernel: GELU stream: COMPUTE inputs: 2 outputs: 2 }
    steps { name: "down" kernel: MATMUL stream: COMPUTE inputs: 2 outputs: 3 }
    steps { name: "scatter" kernel: GROUP_REDUCE_SCATTER stream: COLLECTIVE inputs: 3 outputs: 0 deps: 3
            collective { purpose: TENSOR algorithm: "ring" } }
    steps { name: "norm" kernel: LAYER_NORM stream: COMPUTE inputs: 0 outputs: 0 deps: 4 } })");
}

int64_t Elements(const Segment& segment, int32_t value) {
  int64_t elements = 1;
  for (const int64_t extent : segment.values(value).shape()) elements *= extent;
  return elements;
}

TEST(TensorPieces, BelowTwoNothingChanges) {
  Program program = Layer();
  CutTensorCollectives(1, &program);
  EXPECT_EQ(program.SerializeAsString(), Layer().SerializeAsString());
}

TEST(TensorPieces, GathersBehindAndScattersInFrontOfTheProduct) {
  Program program = Layer();
  CutTensorCollectives(4, &program);
  const Segment& s = program.segments(0);
  std::string names;
  for (const Step& step : s.steps()) names += step.name() + " ";
  EXPECT_EQ(names, "gather gather up gelu scatter down scatter norm ");
  // The product waits for the first quarter, and the step after the product waits for the rest.
  EXPECT_EQ(Elements(s, s.steps(0).outputs(0)), 80);
  EXPECT_EQ(Elements(s, s.steps(1).outputs(0)), 240);
  EXPECT_EQ(Elements(s, s.steps(1).inputs(0)), 60);
  ASSERT_EQ(s.steps(2).deps_size(), 1);
  EXPECT_EQ(s.steps(2).deps(0), 0);
  ASSERT_EQ(s.steps(3).deps_size(), 1);
  EXPECT_EQ(s.steps(3).deps(0), 1);
  // Three quarters of the sum are sent while the product runs: they wait for the step before the product. The rest is
  // sent after the product.
  EXPECT_EQ(Elements(s, s.steps(4).inputs(0)), 240);
  ASSERT_EQ(s.steps(4).deps_size(), 1);
  EXPECT_EQ(s.steps(4).deps(0), 3);
  EXPECT_EQ(Elements(s, s.steps(6).inputs(0)), 80);
  ASSERT_EQ(s.steps(6).deps_size(), 1);
  EXPECT_EQ(s.steps(6).deps(0), 5);
  ASSERT_EQ(s.steps(7).deps_size(), 1);
  EXPECT_EQ(s.steps(7).deps(0), 6);
}

// The backward of a layer gathers its input again for the weight's product. Another product before that one runs while
// the gather is in flight.
TEST(TensorPieces, EarlierProductsDoNotWaitForTheGather) {
  Program program = Read(R"(segments {
    name: "backward"
    operands { bytes: 4096 access: READ_WRITE }
    values { name: "part" dtype: BF16 shape: 8 shape: 10 } values { name: "whole" dtype: BF16 shape: 32 shape: 10 }
    values { name: "wide" dtype: BF16 shape: 32 shape: 40 } values { name: "sum" dtype: BF16 shape: 32 shape: 10 }
    steps { name: "gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1
            collective { purpose: TENSOR algorithm: "ring" } }
    steps { name: "second gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 3
            collective { purpose: TENSOR algorithm: "ring" } }
    steps { name: "dx" kernel: MATMUL stream: COMPUTE inputs: 2 outputs: 2 }
    steps { name: "dw" kernel: MATMUL stream: COMPUTE inputs: 1 outputs: 2 deps: 0 }
    steps { name: "second dw" kernel: MATMUL stream: COMPUTE inputs: 3 outputs: 2 deps: 1 }
    steps { name: "norm" kernel: LAYER_NORM stream: COMPUTE inputs: 0 outputs: 0 } })");
  CutTensorCollectives(4, &program);
  const Segment& s = program.segments(0);
  const auto deps = [&](int step) {
    return std::vector<int>(s.steps(step).deps().begin(), s.steps(step).deps().end());
  };
  ASSERT_EQ(s.steps_size(), 8);
  EXPECT_EQ(s.steps(4).name(), "dx");
  EXPECT_EQ(deps(4), std::vector<int>());
  EXPECT_EQ(deps(5), (std::vector<int>{0}));
  EXPECT_EQ(deps(6), (std::vector<int>{2, 1}));
  EXPECT_EQ(deps(7), (std::vector<int>{3}));
}

TEST(TensorPieces, OnlyCollectivesBesideAProductAreCut) {
  Program program = Layer();
  Segment* s = program.mutable_segments(0);
  s->mutable_steps(1)->set_kernel(GELU);
  s->mutable_steps(4)->mutable_collective()->set_purpose(SCATTER_GRADIENTS);
  const std::string before = program.SerializeAsString();
  CutTensorCollectives(4, &program);
  EXPECT_EQ(program.SerializeAsString(), before);
}

}  // namespace
}  // namespace weft::sim
