// Tests which operands, values and dependencies a part of a segment keeps, and the access of its operands.
#include "compiler/rewrite/segment_part.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

// Buffers 0 to 3 of 8 floats; only the first is persistent.
Template FourBuffers() {
  Template t;
  for (int i = 0; i < 4; ++i) {
    Buffer& buffer = *t.add_buffers();
    buffer.set_name("b" + std::to_string(i));
    buffer.set_dtype(FP32);
    buffer.add_shape(8);
    buffer.set_bytes(32);
    buffer.set_persistent(i == 0);
  }
  return t;
}

// y = cast(x); z = cast(y); w += z, which has one row.
Segment Whole() {
  return Parse<Segment>(R"pb(
    name: "whole"
    operands { name: "x" bytes: 32 access: READ }
    operands { name: "y" bytes: 32 access: WRITE }
    operands { name: "z" bytes: 32 access: WRITE }
    operands { name: "w" bytes: 32 access: READ_WRITE }
    values { name: "x" operand: 0 dtype: FP32 shape: 8 }
    values { name: "y" operand: 1 dtype: FP32 shape: 8 }
    values { name: "z" operand: 2 dtype: FP32 shape: 1 shape: 8 }
    values { name: "w" operand: 3 dtype: FP32 shape: 8 }
    steps { name: "first" kernel: CAST inputs: 0 outputs: 1 }
    steps { name: "second" kernel: CAST inputs: 1 outputs: 2 deps: 0 }
    steps { name: "third" kernel: BIAS_GRADIENT inputs: 2 outputs: 3 accumulate: true deps: 1 deps: 0 }
  )pb");
}

std::vector<std::string> Operands(const BoundSegment& part) {
  std::vector<std::string> names;
  for (const Operand& operand : part.segment.operands()) {
    names.push_back(operand.name() + " " + Access_Name(operand.access()));
  }
  return names;
}

TEST(SegmentPartTest, OmitsUnusedOperands) {
  const Segment whole = Whole();
  const auto named = [](const std::string& name) { return [=](const Step& step) { return step.name() == name; }; };
  const BoundSegment second = PartOf(whole, {10, 11, 12, 13}, "part", named("second"));
  EXPECT_EQ(second.segment.name(), "part");
  EXPECT_THAT(second.operands, ElementsAre(11, 12));
  EXPECT_THAT(Operands(second), ElementsAre("y READ", "z WRITE"));
  ASSERT_EQ(second.segment.steps_size(), 1);
  EXPECT_THAT(second.segment.steps(0).inputs(), ElementsAre(0));
  EXPECT_THAT(second.segment.steps(0).outputs(), ElementsAre(1));
  // The step waits for nothing, because the part contains none of the steps that it waited for.
  EXPECT_THAT(second.segment.steps(0).deps(), IsEmpty());
  EXPECT_EQ(second.segment.values(0).name(), "y");
  EXPECT_EQ(second.segment.values(1).operand(), 1);
}

TEST(SegmentPartTest, DependenciesAreRenumberedAndSumsReadWhatTheyAddTo) {
  const BoundSegment part =
      PartOf(Whole(), {10, 11, 12, 13}, "part", [](const Step& step) { return step.name() != "first"; });
  EXPECT_THAT(Operands(part), ElementsAre("y READ", "z READ_WRITE", "w READ_WRITE"));
  ASSERT_EQ(part.segment.steps_size(), 2);
  EXPECT_THAT(part.segment.steps(0).deps(), IsEmpty());
  EXPECT_THAT(part.segment.steps(1).deps(), ElementsAre(0));
  const BoundSegment all = PartOf(Whole(), {10, 11, 12, 13}, "all", [](const Step&) { return true; });
  EXPECT_THAT(all.operands, ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(all.segment.steps(2).deps(), ElementsAre(1, 0));
  EXPECT_TRUE(PartOf(Whole(), {10, 11, 12, 13}, "none", [](const Step&) { return false; }).operands.empty());
}

TEST(SegmentPartTest, ValuesOfOneBufferShareAnOperand) {
  const Template t = FourBuffers();
  BoundSegment segment;
  Value half = Parse<Value>("name: 'low' dtype: FP32 shape: 4");
  EXPECT_EQ(AddValue(t, 2, half, &segment), 0);
  half.set_name("high");
  half.set_offset(16);
  EXPECT_EQ(AddValue(t, 2, half, &segment), 1);
  EXPECT_EQ(AddValue(t, 0, half, &segment), 2);
  EXPECT_THAT(segment.operands, ElementsAre(2, 0));
  EXPECT_THAT(Operands(segment), ElementsAre("b2 READ", "b0 READ"));
  EXPECT_EQ(segment.segment.values(1).operand(), 0);
  EXPECT_EQ(segment.segment.values(2).operand(), 1);
  EXPECT_EQ(segment.segment.operands(0).bytes(), 32);
}

// If half of a persistent buffer is written, the content of the other half is still needed. The other half of a
// transient buffer is not.
TEST(SegmentPartTest, AccessSaysWhetherAnythingRemains) {
  const Template t = FourBuffers();
  const auto written = [&](int buffer, const std::string& shape, bool accumulate) {
    BoundSegment segment;
    const Value value = Parse<Value>("dtype: FP32 shape: " + shape);
    Step& step = *segment.segment.add_steps();
    step.set_accumulate(accumulate);
    step.add_outputs(AddValue(t, buffer, value, &segment));
    SetAccess(t, &segment);
    return segment.segment.operands(0).access();
  };
  EXPECT_EQ(written(0, "8", false), WRITE);
  EXPECT_EQ(written(0, "4", false), READ_WRITE);
  EXPECT_EQ(written(1, "4", false), WRITE);
  EXPECT_EQ(written(1, "8", true), READ_WRITE);
  BoundSegment unused;
  AddValue(t, 0, Parse<Value>("dtype: FP32 shape: 8"), &unused);
  SetAccess(t, &unused);
  EXPECT_EQ(unused.segment.operands(0).access(), READ);
}

TEST(SegmentPartTest, CopiesAndZeroes) {
  const Template t = FourBuffers();
  BoundSegment segment;
  AddCopy(t, 3, 1, &segment);
  AddZero(t, 2, &segment);
  EXPECT_THAT(segment.operands, ElementsAre(3, 1, 2));
  EXPECT_THAT(Operands(segment), ElementsAre("b3 READ", "b1 WRITE", "b2 WRITE"));
  ASSERT_EQ(segment.segment.steps_size(), 2);
  const Step &copy = segment.segment.steps(0), &zero = segment.segment.steps(1);
  EXPECT_EQ(copy.kernel(), CAST);
  EXPECT_EQ(copy.name(), "copy b3");
  EXPECT_EQ(copy.work().bytes(), 64);
  EXPECT_EQ(zero.kernel(), FILL);
  EXPECT_EQ(zero.work().bytes(), 32);
  EXPECT_THAT(zero.outputs(), ElementsAre(2));
  EXPECT_THAT(segment.segment.values(2).shape(), ElementsAre(8));
}

}  // namespace
}  // namespace weft
