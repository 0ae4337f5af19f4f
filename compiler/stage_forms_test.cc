// Tests the segments that schedules require: backwards in two halves, several stages on a rank, several ranks per
// stage, and skip connections.
#include <set>
#include <string>
#include <vector>

#include "compiler/lower_segments.h"
#include "compiler/segments/saved_for_input.h"
#include "compiler/segments/segment_set.h"
#include "compiler/segments_testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// The operands of a segment that have the role `role`.
std::vector<SegmentOperand> Operands(const StageSegment& segment, ir::Role role) {
  std::vector<SegmentOperand> found;
  for (const SegmentOperand& operand : segment.operands) {
    if (operand.role == role) found.push_back(operand);
  }
  return found;
}

// Kernels and names of a segment's steps, sorted, without copies.
std::multiset<std::string> StepNames(const StageSegment& segment) {
  std::multiset<std::string> names;
  for (const Step& step : segment.segment.steps()) {
    if (step.name() != "copy") names.insert(Kernel_Name(step.kernel()) + " " + step.name());
  }
  return names;
}

// Together, the two halves of a backward have each step of the whole backward once. The first half has the steps that
// lead to gradients of activations.
TEST(Segments, BackwardIsCutInTwo) {
  for (Recompute::Mode mode : {Recompute::NONE, Recompute::FULL}) {
    for (AccumulationMode accumulation : {IN_ORDER, EXACT}) {
      SegmentOptions options = Options(3);
      options.split_backward = true;
      options.between_halves = EVERYTHING;
      options.recompute.set_mode(mode);
      options.accumulation = accumulation;
      SegmentSet set = Compile(SmallRecipe(), options);
      ExpectSane(set);
      for (size_t s = 0; s < set.stages.size(); ++s) {
        const StageIndex& stage = set.stages[s];
        ASSERT_GE(stage.backward_input, 0);
        ASSERT_GE(stage.backward_weight, 0);
        const StageSegment& input = set.segments[stage.backward_input];
        const StageSegment& weight = set.segments[stage.backward_weight];
        std::multiset<std::string> both = StepNames(input);
        both.merge(StepNames(weight));
        EXPECT_EQ(both, StepNames(set.segments[stage.backward]));
        for (const Step& step : weight.segment.steps()) {
          EXPECT_TRUE(step.accumulate() || step.kernel() == EXACT_ACCUMULATE || accumulation == EXACT) << step.name();
        }
        for (const Step& step : input.segment.steps()) {
          EXPECT_FALSE(step.accumulate()) << step.name();
          EXPECT_NE(step.kernel(), BIAS_GRADIENT);
        }
        EXPECT_EQ(Operands(input, ir::Role::InputGrad).size(), s == 0 ? 0 : 1);
        EXPECT_TRUE(Operands(input, ir::Role::Grad).empty());
        EXPECT_TRUE(Operands(weight, ir::Role::OutputGrad).empty());
        EXPECT_TRUE(Operands(weight, ir::Role::InputGrad).empty());
        // Writer and readers use the same layout.
        ASSERT_EQ(Operands(input, ir::Role::SavedGrad).size(), 1);
        ASSERT_EQ(Operands(weight, ir::Role::SavedGrad).size(), 1);
        EXPECT_EQ(Operands(input, ir::Role::SavedGrad)[0].bytes, stage.saved_grad_bytes);
        EXPECT_EQ(Operands(weight, ir::Role::SavedGrad)[0].bytes, stage.saved_grad_bytes);
        EXPECT_EQ(Operands(input, ir::Role::SavedGrad)[0].access, WRITE);
        EXPECT_EQ(Operands(weight, ir::Role::SavedGrad)[0].access, READ);
        for (const StageSegment* half : {&input, &weight}) {
          for (const SegmentOperand& saved : Operands(*half, ir::Role::Saved)) {
            EXPECT_EQ(saved.bytes, stage.saved_bytes);
            EXPECT_EQ(saved.access, READ);
          }
        }
      }
    }
  }
  SegmentOptions only = Options(2);
  only.whole_backward = false;
  only.split_backward = true;
  SegmentSet set = Compile(SmallRecipe(), only);
  EXPECT_EQ(set.stages[0].backward, -1);
  EXPECT_GE(set.stages[0].backward_input, 0);
  EXPECT_EQ(Compile(SmallRecipe(), Options(2)).stages[0].backward_input, -1);
}

// Unless everything stays, the input half writes over saved values what the weight half reads, and nothing of
// `saved_for_input` is left for the weight half.
TEST(Segments, WhatOnlyTheInputHalfReadsEndsWithIt) {
  for (AccumulationMode accumulation : {IN_ORDER, EXACT}) {
    SegmentOptions options = Options(3);
    options.split_backward = true;
    options.accumulation = accumulation;
    const SegmentSet set = Compile(SmallRecipe(), options);
    ExpectSane(set);
    options.between_halves = EVERYTHING;
    const SegmentSet all = Compile(SmallRecipe(), options);
    int64_t for_input = 0, overwritten = 0;
    for (size_t s = 0; s < set.stages.size(); ++s) {
      const StageIndex& stage = set.stages[s];
      const StageSegment& input = set.segments[stage.backward_input];
      const StageSegment& weight = set.segments[stage.backward_weight];
      EXPECT_EQ(all.stages[s].saved_for_input_bytes, 0);
      EXPECT_EQ(stage.saved_bytes + stage.saved_for_input_bytes, all.stages[s].saved_bytes);
      EXPECT_LT(stage.saved_bytes + stage.saved_grad_bytes, all.stages[s].saved_bytes + all.stages[s].saved_grad_bytes);
      for (const StageSegment* reader : {&input, &set.segments[stage.backward], &set.segments[stage.forward]}) {
        const std::vector<SegmentOperand> saved = Operands(*reader, ir::Role::Saved);
        for (const SegmentOperand& operand : saved) {
          EXPECT_EQ(operand.bytes, operand.use == kSavedForInput ? stage.saved_for_input_bytes : stage.saved_bytes);
          const bool overwrites = reader == &input && operand.use != kSavedForInput;
          EXPECT_TRUE(operand.access != READ_WRITE || overwrites);
          overwritten += operand.access == READ_WRITE;
        }
      }
      for_input += stage.saved_for_input_bytes;
      ASSERT_EQ(Operands(weight, ir::Role::Saved).size(), 1);
      EXPECT_EQ(Operands(weight, ir::Role::Saved)[0].use, 0);
      EXPECT_EQ(Operands(weight, ir::Role::Saved)[0].access, READ);
      for (const Step& step : input.segment.steps()) EXPECT_FALSE(step.accumulate()) << step.name();
    }
    EXPECT_GT(for_input, 0);
    EXPECT_GT(overwritten, 0);
  }
}

// Two lanes in opposite directions: both ranks hold everything, and each rank has a gradient buffer for every use of
// the embedding table.
TEST(Segments, TheEndOfAStepIsOfARank) {
  for (AccumulationMode accumulation : {IN_ORDER, EXACT}) {
    SegmentOptions options = Options(2);
    options.accumulation = accumulation;
    options.placement = {{0, 1}, {1, 0}};
    SegmentSet set = Compile(SmallRecipe(), options);
    ExpectSane(set);
    ASSERT_EQ(set.ranks.size(), 2);
    EXPECT_EQ(set.holdings.tensors[0].sum, TiedSum::kEveryUse);
    const ir::Role summed = accumulation == EXACT ? ir::Role::GradAccumulator : ir::Role::Grad;
    for (int rank : {0, 1}) {
      const StageSegment& step = set.segments[set.ranks[rank].optimizer_step];
      EXPECT_EQ(step.rank, rank);
      EXPECT_EQ(step.stage, 0);
      // Every parameter has one copy, though two stages read the table.
      EXPECT_EQ(Operands(step, ir::Role::Param).size(), set.tensors.size());
      const StageSegment& norm = set.segments[set.ranks[rank].grad_norm];
      std::vector<int32_t> uses;
      for (const SegmentOperand& operand : Operands(norm, summed)) {
        if (operand.tensor == 0) uses.push_back(operand.use);
      }
      EXPECT_EQ(uses, (std::vector<int32_t>{0, 1}));
      int norms = 0;
      for (const Step& one : norm.segment.steps()) norms += one.kernel() == SQUARED_NORM;
      // Rank 0 is the lowest rank that holds a stage, for every stage.
      EXPECT_EQ(norms, rank == 0 ? static_cast<int>(set.tensors.size()) : 0);
    }
  }
  SegmentOptions options = Options(2);
  options.placement = {{0, 1}, {1}};
  EXPECT_EQ(Error(Graph(), SmallRecipe(), options), "placement: lane 1 places 1 stages; the plan has 2");
}

// A snake of four stages: the first and the last stage, which share the table, are on one rank.
TEST(Segments, UsesOfATensorOnOneRankAreAdded) {
  SegmentOptions options = Options(4);
  options.placement = {{0, 1, 1, 0}};
  SegmentSet set = Compile(SmallRecipe(), options);
  ExpectSane(set);
  EXPECT_EQ(set.holdings.tensors[0].sum, TiedSum::kOneRank);
  const StageSegment& norm = set.segments[set.ranks[0].grad_norm];
  EXPECT_EQ(norm.segment.steps(0).name(), "sum uses of transformer.wte.weight");
  EXPECT_EQ(norm.segment.steps(0).kernel(), ADD);
  EXPECT_EQ(set.segments[set.ranks[1].optimizer_step].stage, 1);
}

// The embedding is added again after the last block.
ModelGraph GraphWithSkip() {
  ModelGraph graph = Graph();
  for (int i = 0; i < graph.ops_size(); ++i) {
    if (graph.ops(i).kind() != "layer_norm" || graph.ops(i).layer() != 5) continue;
    std::string embedded;
    for (const GraphOp& op : graph.ops()) {
      if (op.layer() == 0) embedded = op.outputs(0);
    }
    GraphOp add;
    add.set_name("again");
    add.set_kind("add");
    add.set_layer(5);
    add.add_inputs(graph.ops(i).inputs(0));
    add.add_inputs(embedded);
    add.add_outputs("again");
    graph.mutable_ops(i)->set_inputs(0, "again");
    *graph.add_ops() = add;
    for (int k = graph.ops_size() - 1; k > i; --k) graph.mutable_ops()->SwapElements(k, k - 1);
    return graph;
  }
  ADD_FAILURE() << "no final norm";
  return graph;
}

TEST(Segments, SkipConnectionsAreEdges) {
  SegmentOptions options = Options(4);
  options.split_backward = true;
  auto set = CompileSegments(GraphWithSkip(), SmallRecipe(), options);
  ASSERT_TRUE(set.ok()) << set.status();
  ExpectSane(*set);
  ASSERT_EQ(set->skips.size(), 1);
  EXPECT_EQ(set->skips[0].from_stage, 0);
  EXPECT_EQ(set->skips[0].to_stage, 3);
  EXPECT_EQ(set->skips[0].shape, (std::vector<int64_t>{32, 8}));
  EXPECT_FALSE(set->skips[0].name.empty());
  auto uses = [&](int segment, ir::Role role) {
    std::vector<int32_t> found;
    for (const SegmentOperand& operand : Operands(set->segments[segment], role)) found.push_back(operand.use);
    return found;
  };
  EXPECT_EQ(uses(set->stages[0].forward, ir::Role::Output), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(uses(set->stages[3].forward, ir::Role::Input), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(uses(set->stages[1].forward, ir::Role::Input), (std::vector<int32_t>{0}));
  for (int backward : {set->stages[0].backward, set->stages[0].backward_input}) {
    EXPECT_EQ(uses(backward, ir::Role::OutputGrad), (std::vector<int32_t>{0, 1}));
  }
  for (int backward : {set->stages[3].backward, set->stages[3].backward_input}) {
    EXPECT_EQ(uses(backward, ir::Role::InputGrad), (std::vector<int32_t>{0, 1}));
  }
  options = Options(3);
  options.evaluation = true;
  EXPECT_EQ(CompileSegments(GraphWithSkip(), SmallRecipe(), options)->skips.size(), 1);
  // If two values cross to the next stage, one of them is a skip connection.
  set = CompileSegments(GraphWithSkip(), SmallRecipe(), Options(2));
  ASSERT_TRUE(set.ok()) << set.status();
  ExpectSane(*set);
  ASSERT_EQ(set->skips.size(), 1);
  EXPECT_EQ(set->skips[0].from_stage, 0);
  EXPECT_EQ(set->skips[0].to_stage, 1);
  EXPECT_EQ(uses(set->stages[0].forward, ir::Role::Output), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(uses(set->stages[1].forward, ir::Role::Input), (std::vector<int32_t>{0, 1}));
}

// A layer without parameters is a stage of its own.
TEST(Segments, AStageWithoutParametersHasNoWeightHalf) {
  ModelGraph graph = Graph();
  int norm = 0;
  for (int i = 0; i < graph.ops_size(); ++i) {
    if (graph.ops(i).layer() != 5) continue;
    if (graph.ops(i).kind() == "layer_norm") norm = i;
    graph.mutable_ops(i)->set_layer(6);
  }
  GraphOp act;
  act.set_name("act");
  act.set_kind("gelu");
  act.set_layer(5);
  act.add_inputs(graph.ops(norm).inputs(0));
  act.add_outputs("act");
  graph.mutable_ops(norm)->set_inputs(0, "act");
  *graph.add_ops() = act;
  for (int k = graph.ops_size() - 1; k > norm; --k) graph.mutable_ops()->SwapElements(k, k - 1);
  SegmentOptions options = Options(3);
  options.layers_per_stage = {5, 1, 1};
  EXPECT_EQ(Error(graph, SmallRecipe(), options), "no error");
  options.split_backward = true;
  EXPECT_EQ(Error(graph, SmallRecipe(), options),
            "stage 1 has no parameters, so its backward cannot be cut in two; give it other layers "
            "(partition.layers_per_stage), or use a schedule with whole backwards");
}

}  // namespace
}  // namespace weft
