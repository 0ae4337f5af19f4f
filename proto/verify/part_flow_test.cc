#include "proto/verify/part_flow.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::verify {
namespace {

using ::testing::HasSubstr;

// Operands of 16 and of 64 elements, a value each, and `steps`; on 2 z and 4 data ranks.
Program With(const std::string& steps) {
  return Parse<Program>(
      "mesh { axes { name: 'z' size: 2 } axes { name: 'data' size: 4 } } segments { "
      "operands { name: 'from' bytes: 64 } operands { name: 'to' bytes: 256 } "
      "values { name: 'a' operand: 0 dtype: FP32 shape: 16 } values { name: 'b' operand: 1 dtype: FP32 shape: 64 } " +
      steps + " }");
}

constexpr char kGather[] =
    "steps { name: 'gather' kernel: GROUP_ALL_GATHER inputs: 0 outputs: 1 "
    "collective { purpose: GATHER_WEIGHTS group { axes { axis: 'data' } } } } ";
constexpr char kScatter[] =
    "steps { name: 'scatter' kernel: GROUP_REDUCE_SCATTER inputs: 0 outputs: 1 "
    "collective { purpose: SCATTER_GRADIENTS group { axes { axis: 'data' } } } } ";

// Axis 1 of the mesh, all of it.
const Cuts kOverData = {{1, 0, 0}};

void ExpectHeld(const Held& held, const Cuts& ranges, const Cuts& sums) {
  EXPECT_EQ(held.ranges, ranges);
  EXPECT_EQ(held.sums, sums);
  EXPECT_FALSE(held.mixed);
}

// The first operand holds ranges of 64 elements that `first` cuts, if it cuts any.
PartFlow Follow(const std::string& steps, const Cuts& first) {
  const Program program = With(steps);
  return FollowParts(program, program.segments(0), {{first, first.empty() ? 0 : 64}, {}});
}

TEST(PartFlow, WhatWorksByElementKeepsRanges) {
  const PartFlow flow = Follow("steps { name: 'cast' kernel: CAST inputs: 0 outputs: 1 }", kOverData);
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], kOverData, {});
  // Nothing was written to the other.
  ExpectHeld(flow.written[0], {}, {});
}

TEST(PartFlow, AGatherMakesARangeWhole) {
  const PartFlow flow = Follow(kGather, kOverData);
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], {}, {});
  // Over other ranks than it is cut over.
  EXPECT_THAT(Follow(kGather, {{0, 0, 0}}).fault,
              HasSubstr("step 'gather' gathers 'a' over data, but its ranges are cut"));
}

TEST(PartFlow, ASumThatScattersMakesARange) {
  const PartFlow flow = Follow(kScatter, {});
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], kOverData, kOverData);
}

TEST(PartFlow, NothingIsSummedTwice) {
  const std::string again =
      "steps { name: 'again' kernel: GROUP_ALL_REDUCE inputs: 1 outputs: 1 "
      "collective { purpose: SCATTER_GRADIENTS group { axes { axis: 'data' } } } } ";
  EXPECT_THAT(Follow(std::string(kScatter) + again, {}).fault,
              HasSubstr("step 'again' sums 'b' over data, which it is summed over already"));
}

TEST(PartFlow, OtherKernelsReadWholes) {
  const std::string gelu = "steps { name: 'gelu' kernel: GELU inputs: 0 outputs: 1 }";
  EXPECT_THAT(Follow(gelu, kOverData).fault,
              HasSubstr("step 'gelu' reads 'a', a range cut over data that was not gathered"));
  const PartFlow flow = Follow(gelu, {});
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], {}, {});
}

}  // namespace
}  // namespace weft::verify
