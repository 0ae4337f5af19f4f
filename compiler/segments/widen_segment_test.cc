#include "compiler/segments/widen_segment.h"

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// The segment computes y = x w. The output is y, and x is saved. w is made of a parameter before it is read, and it is
// saved too.
constexpr char kForward[] = R"(
  name: "f"
  operands { name: "input" bytes: 256 access: READ } operands { name: "output" bytes: 256 access: WRITE }
  operands { name: "saved" bytes: 320 access: WRITE } operands { name: "param" bytes: 64 access: READ }
  values { name: "input" operand: 0 dtype: FP32 shape: [ 16, 4 ] }
  values { name: "output" operand: 1 dtype: FP32 shape: [ 16, 4 ] }
  values { name: "w" operand: 2 dtype: FP32 shape: [ 4, 4 ] }
  values { name: "x" operand: 2 offset: 64 dtype: FP32 shape: [ 16, 4 ] }
  values { name: "param" operand: 3 dtype: FP32 shape: [ 4, 4 ] }
  steps { name: "cast" kernel: CAST inputs: 4 outputs: 2 work { bytes: 128 dtype: FP32 } }
  steps { name: "copy" kernel: CAST inputs: 0 outputs: 3 work { bytes: 512 dtype: FP32 } }
  steps { name: "y" kernel: MATMUL inputs: [ 0, 2 ] outputs: 1 work { flops: 512 bytes: 576 dtype: FP32 } deps: 0 })";

constexpr char kBackward[] = R"(
  name: "b"
  operands { name: "saved" bytes: 320 access: READ } operands { name: "input_grad" bytes: 256 access: WRITE }
  values { name: "w" operand: 0 dtype: FP32 shape: [ 4, 4 ] }
  values { name: "x" operand: 0 offset: 64 dtype: FP32 shape: [ 16, 4 ] }
  values { name: "input_grad" operand: 1 dtype: FP32 shape: [ 16, 4 ] }
  steps { name: "dx" kernel: MATMUL inputs: [ 1, 0 ] outputs: 2 work { flops: 512 bytes: 576 dtype: FP32 } })";

StageSegment Make(ir::SegmentKind kind, const std::string& text, const std::vector<ir::Role>& roles) {
  StageSegment s;
  s.kind = kind;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &s.segment)) << text;
  for (size_t i = 0; i < roles.size(); ++i) {
    SegmentOperand& operand = s.operands.emplace_back();
    operand.role = roles[i];
    operand.bytes = s.segment.operands(static_cast<int>(i)).bytes();
    operand.access = s.segment.operands(static_cast<int>(i)).access();
    if (roles[i] != ir::Role::Saved) operand.shape = {16, 4};
  }
  return s;
}

StageSegment Forward(const std::string& text = kForward) {
  return Make(ir::SegmentKind::Forward, text, {ir::Role::Input, ir::Role::Output, ir::Role::Saved, ir::Role::Param});
}

std::string With(std::string text, const std::string& old, const std::string& now) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

TEST(WidenSegment, RowsOfTokensAreDoubled) {
  auto wide = WidenForward(Forward());
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->width, 2);
  EXPECT_EQ(wide->segment.name(), "f.wide");
  const Segment& segment = wide->segment;
  const int64_t bytes[] = {512, 512, 640, 64};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(segment.operands(i).bytes(), bytes[i]);
    EXPECT_EQ(wide->operands[i].bytes, bytes[i]);
  }
  EXPECT_EQ(wide->operands[1].shape[0], 32);
  EXPECT_EQ(segment.values(0).shape(0), 32);
  // A value made of parameters appears once and keeps its shape.
  EXPECT_EQ(segment.values(2).shape(0), 4);
  EXPECT_EQ(segment.values(3).offset(), 128);
  EXPECT_EQ(segment.values(3).shape(0), 32);
  EXPECT_EQ(segment.values(4).shape(0), 4);
  // Values made of parameters are also read only once.
  EXPECT_EQ(segment.steps(0).work().bytes(), 128);
  EXPECT_EQ(segment.steps(1).work().bytes(), 1024);
  EXPECT_EQ(segment.steps(2).work().flops(), 1024);
  EXPECT_EQ(segment.steps(2).work().bytes(), 576 + 512);
}

// The order of a sum's terms may depend on the number of elements, so each microbatch has its own sum.
TEST(WidenSegment, CollectivesOfRowsRunForEachMicrobatch) {
  auto wide = WidenForward(
      Forward(With(kForward, "{ name: \"y\"",
                   "{ name: \"sum\" kernel: GROUP_ALL_REDUCE inputs: 3 outputs: 3 deps: 1 stream: COLLECTIVE } "
                   "steps { name: \"w\" kernel: GROUP_ALL_REDUCE inputs: 2 outputs: 2 stream: COLLECTIVE } "
                   "steps { name: \"y\" deps: 2 deps: 3")));
  ASSERT_TRUE(wide.ok()) << wide.status();
  const Segment& segment = wide->segment;
  ASSERT_EQ(segment.steps_size(), 6);
  for (int part : {0, 1}) {
    const Step& step = segment.steps(2 + part);
    EXPECT_EQ(step.name(), "sum");
    for (int index : {step.inputs(0), step.outputs(0)}) {
      const Value& half = segment.values(index);
      EXPECT_EQ(half.offset(), 128 + part * 256);
      EXPECT_EQ(half.shape(0), 16);
    }
    EXPECT_EQ(step.attributes().microbatch_offset(), 0);
    EXPECT_EQ(step.deps(0), 1);
  }
  // Values made of parameters are summed once.
  EXPECT_EQ(segment.steps(4).inputs(0), 2);
  const Step& last = segment.steps(5);
  EXPECT_EQ(std::vector<int>(last.deps().begin(), last.deps().end()), (std::vector<int>{2, 3, 4, 0}));
}

TEST(WidenSegment, BackwardReadsItsPart) {
  const StageSegment backward = Make(ir::SegmentKind::Backward, kBackward, {ir::Role::Saved, ir::Role::InputGrad});
  for (int part : {0, 1}) {
    auto narrow = BackwardOfWide(Forward(), backward, part);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_EQ(narrow->part, part);
    EXPECT_EQ(narrow->segment.name(), "b.part" + std::to_string(part));
    EXPECT_EQ(narrow->operands[0].bytes, 640);
    EXPECT_EQ(narrow->operands[1].bytes, 256);
    EXPECT_EQ(narrow->segment.values(0).offset(), 0);
    EXPECT_EQ(narrow->segment.values(1).offset(), 128 + part * 256);
    EXPECT_EQ(narrow->segment.values(1).shape(0), 16);
  }
  EXPECT_NE(BackwardOfWide(Forward(), backward, 2).status().message().find("part 2 is not 0 or 1"), std::string::npos);
  StageSegment other = backward;
  other.segment.mutable_values(1)->set_offset(192);
  EXPECT_EQ(std::string(BackwardOfWide(Forward(), other, 0).status().message()),
            "segment 'b': value 'x' is not one that 'f' saves");
}

// x has 144 bytes, so its halves lie 192 bytes apart, and the step that makes x runs once for each half. So does the
// step that makes z, from which x is made, though z never leaves the segment. y is made from neither x nor z.
TEST(WidenSegment, HalvesThatDoNotFillTheirPlaceLieApart) {
  const std::string text =
      With(With(kForward, R"(offset: 64 dtype: FP32 shape: [ 16, 4 ])", R"(offset: 64 dtype: FP32 shape: [ 12, 3 ])"),
           R"(steps { name: "copy" kernel: CAST inputs: 0 outputs: 3)",
           R"(operands { name: "workspace" bytes: 192 access: WRITE }
              values { name: "z" operand: 4 dtype: INT32 shape: [ 12, 3 ] }
              steps { name: "load" kernel: LOAD_TOKENS outputs: 5 }
              steps { name: "copy" kernel: CAST inputs: 5 outputs: 3)");
  const std::vector<ir::Role> roles = {ir::Role::Input, ir::Role::Output, ir::Role::Saved, ir::Role::Param,
                                       ir::Role::Workspace};
  auto wide = WidenForward(Make(ir::SegmentKind::Forward, text, roles));
  ASSERT_TRUE(wide.ok()) << wide.status();
  const Segment& segment = wide->segment;
  ASSERT_EQ(segment.steps_size(), 6);
  const auto shape_and_offset = [&](int value) {
    const Value& v = segment.values(value);
    return std::vector<int64_t>{v.shape(0), v.shape(1), v.offset()};
  };
  for (const int part : {0, 1}) {
    const Step &load = segment.steps(1 + part), &copy = segment.steps(3 + part);
    EXPECT_EQ(load.name(), "load");
    EXPECT_EQ(load.attributes().microbatch_offset(), part);
    EXPECT_EQ(shape_and_offset(load.outputs(0)), (std::vector<int64_t>{12, 3, part * 192}));
    EXPECT_EQ(copy.name(), "copy");
    EXPECT_EQ(copy.attributes().microbatch_offset(), 0);
    EXPECT_EQ(shape_and_offset(copy.inputs(0)), (std::vector<int64_t>{12, 3, part * 192}));
    EXPECT_EQ(shape_and_offset(copy.outputs(0)), (std::vector<int64_t>{12, 3, 128 + part * 192}));
  }
  EXPECT_EQ(segment.steps(5).name(), "y");
  EXPECT_EQ(shape_and_offset(segment.steps(5).outputs(0)), (std::vector<int64_t>{32, 4, 0}));
  const std::string reads =
      With(kBackward, R"(offset: 64 dtype: FP32 shape: [ 16, 4 ])", R"(offset: 64 dtype: FP32 shape: [ 12, 3 ])");
  const StageSegment forward = Make(ir::SegmentKind::Forward, text, roles);
  for (const int part : {0, 1}) {
    auto narrow =
        BackwardOfWide(forward, Make(ir::SegmentKind::Backward, reads, {ir::Role::Saved, ir::Role::InputGrad}), part);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_EQ(narrow->segment.values(1).offset(), 128 + part * 192);
  }
}

TEST(WidenSegment, SaysWhatIsWrong) {
  auto error = [](const std::string& old, const std::string& now) {
    return std::string(WidenForward(Forward(With(kForward, old, now))).status().message());
  };
  EXPECT_EQ(error(R"(operand: 0 dtype: FP32 shape: [ 16, 4 ])", R"(operand: 0 dtype: FP32 shape: [ 12, 3 ])"),
            "segment 'f': value 'input' has 144 bytes per microbatch; if two microbatches run as one forward, this "
            "must be a multiple of 64, because one message carries both between stages; make the number of tokens (or "
            "images) of "
            "a microbatch a multiple of 16, or use a schedule without forward doubling");
  const std::string advice = ", so two microbatches cannot run at once; use a schedule without forward doubling";
  EXPECT_EQ(error("inputs: [ 0, 2 ] outputs: 1", "inputs: [ 0, 0 ] outputs: 1"),
            "segment 'f', step 'y': mixes rows of different tokens" + advice);
  EXPECT_EQ(error("inputs: [ 0, 2 ] outputs: 1", "inputs: [ 0, 2 ] outputs: 1 attributes { transpose_a: true }"),
            "segment 'f', step 'y': mixes rows of different tokens" + advice);
  EXPECT_EQ(error("kernel: MATMUL", "kernel: ADD"),
            "segment 'f', step 'y': combines a tensor that has a row per token with one that does not" + advice);
  EXPECT_EQ(error("kernel: MATMUL", "kernel: BIAS_GRADIENT"),
            "segment 'f', step 'y': mixes rows of different tokens" + advice);
  EXPECT_EQ(error("name: \"copy\" kernel: CAST inputs: 0", "name: \"copy\" kernel: CAST inputs: 2"), "");
  EXPECT_EQ(error("inputs: 0 outputs: 3", "inputs: 0 outputs: 2"),
            "segment 'f', step 'copy': value 'w' has a row per token in one step and none in another" + advice);
  StageSegment wide = Forward();
  wide.width = 2;
  EXPECT_EQ(std::string(WidenForward(wide).status().message()), "segment 'f' is not a forward of one microbatch");
  StageSegment large = Forward();
  large.operands[0].bytes = int64_t{1} << 60;
  EXPECT_EQ(std::string(WidenForward(large).status().message()),
            "segment 'f': operand 'input' would have more than 2^60 bytes for two microbatches");
}

}  // namespace
}  // namespace weft
