#include "compiler/segments/pair_segments.h"

#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

// A segment with one step per cost, with a workspace. All steps read the parameter. A step's cost is its flops.
StageSegment Make(ir::SegmentKind kind, const std::string& name, const std::vector<int64_t>& flops) {
  StageSegment s;
  s.kind = kind;
  s.stage = kind == ir::SegmentKind::Forward ? 2 : 1;
  s.segment.set_name(name);
  for (ir::Role role : {ir::Role::Saved, ir::Role::Param, ir::Role::Workspace}) {
    SegmentOperand operand;
    operand.role = role;
    operand.tensor = role == ir::Role::Param ? 3 : -1;
    operand.access = role == ir::Role::Param ? READ : WRITE;
    operand.bytes = 64;
    s.operands.push_back(operand);
    Operand* named = s.segment.add_operands();
    named->set_name(ir::stringifyRole(role).str());
    named->set_bytes(64);
    named->set_access(operand.access);
    s.segment.add_values()->set_operand(static_cast<int>(s.operands.size()) - 1);
  }
  for (size_t i = 0; i < flops.size(); ++i) {
    Step* step = s.segment.add_steps();
    step->set_name(name + std::to_string(i));
    step->set_kernel(i == 0 ? DROPOUT : GELU);
    step->add_inputs(1);
    step->add_outputs(2);
    step->mutable_work()->set_flops(flops[i]);
    if (i > 0) step->add_deps(static_cast<int>(i) - 1);
  }
  return s;
}

absl::StatusOr<int64_t> Flops(const Segment&, const Step& step, ActionKind) { return step.work().flops(); }

std::string Order(const StageSegment& merged) {
  std::string order;
  for (const Step& step : merged.segment.steps()) order += step.name() + " ";
  return order;
}

TEST(PairSegments, InterleavesInProportionToWork) {
  auto order = [](const std::vector<int64_t>& f, const std::vector<int64_t>& b) {
    auto merged = MergeSegments(Make(ir::SegmentKind::Forward, "f", f), Make(ir::SegmentKind::Backward, "b", b), Flops);
    EXPECT_TRUE(merged.ok()) << merged.status();
    return Order(*merged);
  };
  EXPECT_EQ(order({1, 1, 1}, {1, 1, 1}), "f0 b0 f1 b1 f2 b2 ");
  EXPECT_EQ(order({1, 1}, {1, 1, 1, 1}), "f0 b0 b1 f1 b2 b3 ");
  EXPECT_EQ(order({2, 2}, {2, 1, 1}), "f0 b0 f1 b1 b2 ");
  EXPECT_EQ(order({}, {1, 1}), "b0 b1 ");
  EXPECT_EQ(order({0, 0}, {INT64_MAX, INT64_MAX}), "f0 b0 f1 b1 ");
}

TEST(PairSegments, OperandsSayWhoseTheyAre) {
  auto merged =
      MergeSegments(Make(ir::SegmentKind::Forward, "f", {1, 1}), Make(ir::SegmentKind::BackwardInput, "b", {1, 1}));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->kind, ir::SegmentKind::ForwardBackward);
  EXPECT_EQ(merged->stage, 2);
  EXPECT_EQ(merged->backward_stage, 1);
  const char* names[] = {"forward saved", "param", "forward workspace", "backward saved", "backward workspace"};
  const int halves[] = {0, 0, 0, 1, 1};
  ASSERT_EQ(merged->operands.size(), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(merged->segment.operands(i).name(), names[i]);
    EXPECT_EQ(merged->operands[i].half, halves[i]);
  }
  // Values and dependencies keep their meaning. Only the backward's dropout has `of_backward` set.
  ASSERT_EQ(Order(*merged), "f0 b0 f1 b1 ");
  const Step& last = merged->segment.steps(3);
  EXPECT_EQ(merged->segment.values(last.inputs(0)).operand(), 1);
  EXPECT_EQ(merged->segment.values(last.outputs(0)).operand(), 4);
  EXPECT_EQ(last.deps(0), 1);
  EXPECT_EQ(merged->segment.steps(2).deps(0), 0);
  EXPECT_FALSE(merged->segment.steps(0).attributes().of_backward());
  EXPECT_TRUE(merged->segment.steps(1).attributes().of_backward());
  EXPECT_FALSE(last.attributes().of_backward());
}

TEST(PairSegments, SaysWhatIsWrong) {
  const StageSegment f = Make(ir::SegmentKind::Forward, "f", {1}), b = Make(ir::SegmentKind::Backward, "b", {1});
  auto error = [](const StageSegment& forward, const StageSegment& backward) {
    return std::string(MergeSegments(forward, backward).status().message());
  };
  EXPECT_EQ(error(b, f), "segments 'b' and 'f' cannot be paired; needed: a forward, and a backward or backward_input");
  StageSegment wide = f;
  wide.width = 2;
  EXPECT_EQ(error(wide, b),
            "segments 'f' and 'b' cannot be paired: a pair must have one microbatch on each side, not two");
  StageSegment writes = f;
  writes.operands[1].access = READ_WRITE;
  EXPECT_EQ(error(writes, b),
            "segment 'b' cannot be paired: operand 'param' is also an operand of the forward, and at least one of the "
            "two writes it");
}

}  // namespace
}  // namespace weft
