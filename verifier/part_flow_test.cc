#include "verifier/part_flow.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::verify {
namespace {

using ::testing::HasSubstr;

// Returns a program with `steps` and operands of 16 and 64 elements, one value each, on 2 z and 4 data ranks.
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

// The whole axis 1 of the mesh.
const Cuts kOverData = {{1, 0, 0}};

void ExpectHeld(const Held& held, const Cuts& ranges, const Cuts& sums) {
  EXPECT_EQ(held.ranges, ranges);
  EXPECT_EQ(held.sums, sums);
  EXPECT_FALSE(held.mixed);
}

// Follows `steps`. The first operand holds ranges of 64 elements cut by `first`, or a whole value if `first` is empty.
PartFlow Follow(const std::string& steps, const Cuts& first) {
  const Program program = With(steps);
  return FollowParts(program, program.segments(0), {{first, first.empty() ? 0 : 64}, {}});
}

TEST(PartFlow, ElementwiseStepsKeepRanges) {
  const PartFlow flow = Follow("steps { name: 'cast' kernel: CAST inputs: 0 outputs: 1 }", kOverData);
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], kOverData, {});
  // No step wrote to the other operand.
  ExpectHeld(flow.written[0], {}, {});
}

TEST(PartFlow, AGatherMakesARangeWhole) {
  const PartFlow flow = Follow(kGather, kOverData);
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], {}, {});
  // The step gathers over other ranks than those that the value is cut over.
  EXPECT_THAT(Follow(kGather, {{0, 0, 0}}).fault,
              HasSubstr("step 'gather' gathers 'a' over data, but its ranges are cut"));
}

TEST(PartFlow, ASumThatScattersMakesARange) {
  const PartFlow flow = Follow(kScatter, {});
  EXPECT_EQ(flow.fault, "");
  ExpectHeld(flow.written[1], kOverData, kOverData);
}

// The list of scatters does not grow with every sum of two values.
TEST(PartFlow, SumsOfSumsRememberAScatterOnce) {
  std::string steps = kScatter;
  for (int i = 0; i < 60; ++i) steps += "steps { name: 'add' kernel: ADD inputs: 1 inputs: 1 outputs: 1 } ";
  const PartFlow flow = Follow(steps, {});
  EXPECT_EQ(flow.fault, "");
  ASSERT_EQ(flow.written[1].scattered.size(), 1u);
  EXPECT_EQ(flow.written[1].scattered[0].least, 16);
  EXPECT_EQ(flow.written[1].scattered[0].most, 16);
}

// 62 elements over four ranks: each holds 16, so the gathered value has 2 elements of padding.
TEST(PartFlow, NothingReadsBehindTheEndOfWhatIsGathered) {
  const auto flow = [](const std::string& shape) {
    Program program = With(std::string(kGather) + "steps { name: 'gelu' kernel: GELU inputs: 2 outputs: 0 }");
    *program.mutable_segments(0)->add_values() = Parse<Value>("name: 'read' operand: 1 dtype: FP32 shape: " + shape);
    return FollowParts(program, program.segments(0), {{kOverData, 62}, {}});
  };
  EXPECT_EQ(flow("62").fault, "");
  EXPECT_THAT(flow("63").fault, HasSubstr("step 'gelu' reads 'read', but a part of it lies after the end"));
}

TEST(PartFlow, ZerosAtTheEndAreNotScattered) {
  const auto scattered = [](int offset, bool before) {
    const std::string zeros = "steps { name: 'zeros' kernel: FILL outputs: 2 } ";
    const std::string product = "steps { name: 'product' kernel: MATMUL inputs: 1 inputs: 1 outputs: 3 } ";
    Program program = With((before ? zeros + product : product + zeros) + kScatter);
    Segment& segment = *program.mutable_segments(0);
    *segment.add_values() =
        Parse<Value>(absl::StrCat("name: 'end' operand: 0 dtype: FP32 offset: ", offset, " shape: ", 16 - offset / 4));
    *segment.add_values() = Parse<Value>("name: 'made' operand: 0 dtype: FP32 shape: 14");
    return FollowParts(program, segment, {{}, {}}).written[1].scattered.at(0);
  };
  // MATMUL makes 14 elements. If the zeros are written before, MATMUL overwrites those from element 12 on. If they are
  // written after, only 12 elements remain.
  EXPECT_EQ(scattered(48, true).most, 14);
  EXPECT_EQ(scattered(48, true).least, 14);
  EXPECT_EQ(scattered(48, false).most, 12);
}

// 60 elements cut over four ranks are 15 each, and these cut over two ranks are 8. If both cuts are gathered at once,
// there is a gap after every 15 elements.
TEST(PartFlow, SeveralCutsAreGatheredAtOnceWherePaddingIsAtTheEnd) {
  const std::string both =
      "steps { name: 'gather' kernel: GROUP_ALL_GATHER inputs: 0 outputs: 1 collective { purpose: GATHER_WEIGHTS "
      "group { axes { axis: 'data' } axes { axis: 'z' } } } } ";
  const Program program = With(both);
  const auto fault = [&](int64_t block) {
    return FollowParts(program, program.segments(0), {{{{1, 0, 0}, {0, 0, 0}}, block}, {}}).fault;
  };
  EXPECT_EQ(fault(64), "");
  EXPECT_EQ(fault(62), "");
  EXPECT_THAT(fault(60), HasSubstr("gathers 'a' over data, z at once, but its ranges do not divide evenly"));
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
