#include "simulator/runtime/weight_casts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

// A forward with a weight of 4 x 8 and a head of 8 x 16, and a backward that reads the weight again; two microbatches.
Program TwoMicrobatches() {
  Program program;
  const absl::Status read = ParseMessage(R"(
    segments { name: "forward" operands { name: "x" } operands { name: "w" } operands { name: "h" }
      values { name: "x" operand: 0 shape: 2 shape: 4 } values { name: "w" operand: 1 shape: 4 shape: 8 }
      values { name: "y" operand: 0 offset: 64 shape: 2 shape: 8 } values { name: "h" operand: 2 shape: 8 shape: 16 }
      values { name: "z" operand: 0 offset: 128 shape: 2 shape: 16 }
      steps { name: "gather" kernel: GROUP_ALL_GATHER stream: COLLECTIVE collective { purpose: GATHER_WEIGHTS } }
      steps { name: "norm" kernel: RMS_NORM inputs: 0 outputs: 0 }
      steps { name: "up" kernel: MATMUL inputs: [0, 1] outputs: 2 deps: 0 deps: 1 work { dtype: BF16 } }
      steps { name: "head" kernel: MATMUL inputs: [2, 3] outputs: 4 work { dtype: BF16 } }
      steps { name: "loss" kernel: CROSS_ENTROPY inputs: 4 outputs: 0 } }
    segments { name: "backward" operands { name: "x" } operands { name: "w" }
      values { name: "dy" operand: 0 shape: 2 shape: 8 } values { name: "w" operand: 1 shape: 4 shape: 8 }
      values { name: "dx" operand: 0 offset: 64 shape: 2 shape: 4 }
      steps { name: "dgrad" kernel: MATMUL inputs: [0, 1] outputs: 2 work { dtype: BF16 } } }
    templates { buffers { name: "x" class: SAVED_ACTIVATION } buffers { name: "w" class: PARAMETER role: PARAM }
      buffers { name: "h" class: PARAMETER role: PARAM }
      body { id: 0 kind: FORWARD segment: 0 operands: [0, 1, 2] }
      body { id: 1 kind: BACKWARD segment: 1 operands: [0, 1] }
      body { id: 2 kind: FORWARD segment: 0 operands: [0, 1, 2] }
      body { id: 3 kind: BACKWARD segment: 1 operands: [0, 1] }
    })",
                                         "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return program;
}

TEST(WeightCasts, ProductsThatReadWeightsAreKnown) {
  EXPECT_THAT(KeptWeightFactors(TwoMicrobatches(), true),
              ElementsAre(FieldsAre(0, 2, 1), FieldsAre(0, 3, 1), FieldsAre(1, 0, 1)));
  EXPECT_THAT(KeptWeightFactors(TwoMicrobatches(), false), ElementsAre(FieldsAre(0, 2, 1), FieldsAre(1, 0, 1)));
}

TEST(WeightCasts, TheFirstForwardOfARepetitionCastsThem) {
  Program program = TwoMicrobatches();
  CastWeightsOnce(2, false, &program);
  ASSERT_EQ(program.segments_size(), 3);
  const Template& t = program.templates(0);
  EXPECT_EQ(t.body(0).segment(), 2);
  EXPECT_EQ(t.body(2).segment(), 0);
  EXPECT_EQ(t.body(1).segment(), 1);
  const Segment& first = program.segments(2);
  ASSERT_EQ(first.steps_size(), 6);
  EXPECT_EQ(first.steps(2).kernel(), CAST);
  EXPECT_EQ(first.steps(2).name(), "cast w");
  // 32 elements x 2 bytes x 2 products.
  EXPECT_EQ(first.steps(2).work().bytes(), 128);
  EXPECT_EQ(first.steps(2).work().dtype(), BF16);
  // The cast waits for the gather of the weight, not for the norm.
  EXPECT_THAT(first.steps(2).deps(), ElementsAre(0));
  EXPECT_EQ(first.steps(3).name(), "up");
  EXPECT_THAT(first.steps(3).deps(), ElementsAre(0, 1));
  EXPECT_EQ(program.segments(0).steps_size(), 5);
}

TEST(WeightCasts, TheHeadIsCastWhereItIsOneOfAll) {
  Program program = TwoMicrobatches();
  CastWeightsOnce(2, true, &program);
  ASSERT_EQ(program.segments_size(), 3);
  EXPECT_EQ(program.segments(2).steps(4).name(), "cast h");
  EXPECT_EQ(program.segments(2).steps(4).work().bytes(), 512);
}

TEST(WeightCasts, SeveralVersionsAreNotKept) {
  Program program = TwoMicrobatches();
  program.set_steps_per_repetition(2);
  EXPECT_TRUE(KeptWeightFactors(program, true).empty());
  CastWeightsOnce(2, true, &program);
  EXPECT_EQ(program.segments_size(), 2);
}

}  // namespace
}  // namespace weft::sim
