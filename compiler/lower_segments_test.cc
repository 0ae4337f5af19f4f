#include "compiler/lower_segments.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compiler/models/import_hf.h"
#include "compiler/segments/segment_set.h"
#include "compiler/segments_testing.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft {
namespace {

TEST(Segments, EveryVariantIsSane) {
  for (int32_t stages : {1, 2, 3, 6}) {
    for (AccumulationMode accumulation : {IN_ORDER, EXACT}) {
      for (Recompute::Mode mode : {Recompute::NONE, Recompute::FULL}) {
        SegmentOptions options = Options(stages);
        options.accumulation = accumulation;
        options.recompute.set_mode(mode);
        options.precision.set_compute(BF16);
        options.precision.set_params(BF16);
        SegmentSet set = Compile(SmallRecipe(), options);
        ASSERT_EQ(set.stages.size(), static_cast<size_t>(stages));
        ExpectSane(set);
      }
    }
  }
}

// The value that one stage hands on has the shape that the next stage reads, in both directions.
TEST(Segments, BoundariesMatch) {
  SegmentSet set = Compile(SmallRecipe(), Options(3));
  auto find = [&](int segment, ir::Role role) -> const SegmentOperand* {
    for (const SegmentOperand& operand : set.segments[segment].operands) {
      if (operand.role == role) return &operand;
    }
    return nullptr;
  };
  for (size_t s = 0; s < set.stages.size(); ++s) {
    bool first = s == 0;
    bool last = s + 1 == set.stages.size();
    EXPECT_EQ(find(set.stages[s].forward, ir::Role::Input) == nullptr, first);
    EXPECT_EQ(find(set.stages[s].backward, ir::Role::InputGrad) == nullptr, first);
    EXPECT_EQ(find(set.stages[s].forward, ir::Role::Output) == nullptr, last);
    EXPECT_EQ(find(set.stages[s].backward, ir::Role::OutputGrad) == nullptr, last);
    EXPECT_EQ(find(set.stages[s].forward, ir::Role::LocalLosses) != nullptr, last);
    if (last) continue;
    const SegmentOperand* output = find(set.stages[s].forward, ir::Role::Output);
    EXPECT_EQ(output->shape, (std::vector<int64_t>{32, 8}));
    EXPECT_EQ(output->shape, find(set.stages[s + 1].forward, ir::Role::Input)->shape);
    EXPECT_EQ(output->shape, find(set.stages[s + 1].backward, ir::Role::InputGrad)->shape);
    EXPECT_EQ(output->access, WRITE);
  }
}

// The work does not depend on the partition. It is the model's flops plus a second computation of attention's scores.
TEST(Segments, FlopsAreThoseOfTheModel) {
  const int64_t rows = 32, d = 8, layers = 4, sequence = 16, padded = 384;
  int64_t before = 0;
  for (int32_t stages : {1, 2, 5}) {
    SegmentSet set = Compile(SmallRecipe(), Options(stages));
    int64_t flops = 0;
    for (const StageSegment& segment : set.segments) {
      for (const Step& step : segment.segment.steps()) flops += step.work().flops();
    }
    EXPECT_EQ(flops, set.model_flops + 2 * rows * sequence * d * layers);
    if (before != 0) {
      EXPECT_EQ(flops, before);
    }
    before = flops;
  }
  // The products of a block take 24 d^2 flops per token in the forward, and twice that in the backward; so do the
  // products of the head, with 2 d flops for each padded entry of the vocabulary. Attention takes 4 S d flops per token
  // and block in the forward, and 10 S d in the backward.
  EXPECT_EQ(before, 3 * 2 * rows * (12 * d * d * layers + d * padded) + 14 * rows * sequence * d * layers);
}

// 6 flops per parameter of a product and 12 L s d of attention per token: Narayanan et al. 2021, arXiv:2104.04473, and
// Chowdhery et al. 2022, arXiv:2204.02311, appendix B.
TEST(Segments, ModelFlopsOfGpt2AreTheClosedForm) {
  auto graph = ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12})",
      "gpt2");
  ASSERT_TRUE(graph.ok()) << graph.status();
  Recipe recipe = SmallRecipe();
  recipe.set_sequence_length(1024);
  SegmentOptions options = Options(2);
  options.recompute.set_mode(Recompute::FULL);
  auto set = CompileSegments(*graph, recipe, options);
  ASSERT_TRUE(set.ok()) << set.status();
  const int64_t tokens = recipe.microbatch_sequences() * 1024;
  const int64_t parameters = 12 * 12 * 768 * 768 + 768 * 50304;
  EXPECT_EQ(set->model_flops, tokens * (6 * parameters + 12 * 12 * 1024 * 768));
  // A causal mask leaves on average 512.5 of the 1024 scores of a row.
  EXPECT_EQ(set->model_flops_masked, tokens * 12 * 12 * 1023 * 768 / 2);
}

// Nothing reads a gradient of the image, so none is computed or counted. If attention consists of separate ops, its
// scores are saved, so the work equals the model's flops.
TEST(Segments, ModelFlopsOfAUnetAreItsWork) {
  auto graph = ImportHuggingFaceConfig(R"({"model_type": "unet", "image_size": 8, "in_channels": 3,
      "model_channels": 16, "channel_mult": [1, 2], "num_res_blocks": 1, "attention_resolutions": [4], "num_heads": 2,
      "norm_num_groups": 8, "use_scale_shift_norm": true, "learn_sigma": false, "dropout": 0.0,
      "diffusion_steps": 200, "noise_schedule": "linear"})",
                                       "unet");
  ASSERT_TRUE(graph.ok()) << graph.status();
  Recipe recipe = SmallRecipe();
  recipe.set_sequence_length(64);
  SegmentOptions options = Options(1);
  options.attention = MATERIALIZED;
  auto set = CompileSegments(*graph, recipe, options);
  ASSERT_TRUE(set.ok()) << set.status();
  int64_t flops = 0;
  for (const StageSegment& segment : set->segments) {
    for (const Step& step : segment.segment.steps()) flops += step.work().flops();
  }
  EXPECT_GT(flops, 0);
  EXPECT_EQ(flops, set->model_flops);
}

TEST(Segments, RecomputeSavesLessAndComputesMore) {
  SegmentOptions options = Options(1);
  SegmentSet all = Compile(SmallRecipe(), options);
  options.recompute.set_mode(Recompute::FULL);
  SegmentSet full = Compile(SmallRecipe(), options);
  options.recompute.set_mode(Recompute::EVERY);
  options.recompute.set_every(2);
  SegmentSet every = Compile(SmallRecipe(), options);
  EXPECT_LT(full.stages[0].saved_bytes, every.stages[0].saved_bytes);
  EXPECT_LT(every.stages[0].saved_bytes, all.stages[0].saved_bytes);
  EXPECT_EQ(CountKernels(all, ATTENTION, ir::SegmentKind::Backward), 0);
  EXPECT_EQ(CountKernels(every, ATTENTION, ir::SegmentKind::Backward), 2);
  EXPECT_EQ(CountKernels(full, ATTENTION, ir::SegmentKind::Backward), 4);
  EXPECT_EQ(full.model_flops, all.model_flops);
}

// The chosen cut is the best of all cuts, measured on the segments that each cut really gets.
TEST(Segments, BalanceKnowsWhatIsComputedAgain) {
  struct Case {
    Recompute::Mode mode;
    std::vector<int> layers;
    int every = 0;
    AccumulationMode accumulation = IN_ORDER;
  };
  for (const Case& c : {Case{Recompute::NONE, {}}, Case{Recompute::FULL, {}}, Case{Recompute::LAYERS, {1, 2, 3}},
                        Case{Recompute::LAYERS, {3, 4}}, Case{Recompute::EVERY, {}, 2},
                        Case{Recompute::NONE, {}, 0, EXACT}, Case{Recompute::FULL, {}, 0, EXACT}}) {
    SegmentOptions options = Options(2);
    options.recompute.set_mode(c.mode);
    for (int layer : c.layers) options.recompute.add_layers(layer);
    options.recompute.set_every(c.every);
    options.accumulation = c.accumulation;
    options.cost = [](const Segment&, const Step& step, ActionKind) -> absl::StatusOr<int64_t> {
      return step.kernel() == EXACT_ACCUMULATE ? step.work().bytes() : step.work().flops();
    };
    auto slowest = [&](const SegmentSet& set) {
      std::vector<int64_t> stages(set.stages.size(), 0);
      for (const StageSegment& segment : set.segments) {
        if (segment.kind != ir::SegmentKind::Forward && segment.kind != ir::SegmentKind::Backward) continue;
        for (const Step& step : segment.segment.steps()) {
          stages[segment.stage] += *options.cost(segment.segment, step, FORWARD);
        }
      }
      return *std::max_element(stages.begin(), stages.end());
    };
    const int64_t chosen = slowest(Compile(SmallRecipe(), options));
    int64_t best = INT64_MAX;
    for (int32_t first = 1; first < 6; ++first) {
      options.layers_per_stage = {first, 6 - first};
      best = std::min(best, slowest(Compile(SmallRecipe(), options)));
    }
    EXPECT_EQ(chosen, best) << "mode " << c.mode << ", accumulation " << c.accumulation;
  }
}

TEST(Segments, DropoutIsTheRecipes) {
  Recipe recipe = SmallRecipe();
  SegmentSet off = Compile(recipe, Options(1));
  EXPECT_EQ(CountKernels(off, DROPOUT, ir::SegmentKind::Forward), 0);
  recipe.set_dropout(0.25);
  SegmentSet on = Compile(recipe, Options(1));
  // Dropout comes after the embedding and twice per block. The recipe's value also replaces the config's 0. Attention
  // drops values too.
  EXPECT_EQ(CountKernels(on, DROPOUT, ir::SegmentKind::Forward), 9);
  std::set<uint32_t> sites;
  for (const Step& step : on.segments[on.stages[0].forward].segment.steps()) {
    if (step.kernel() != DROPOUT && step.kernel() != ATTENTION) continue;
    EXPECT_EQ(step.attributes().dropout(), 0.25);
    EXPECT_TRUE(sites.insert(step.attributes().dropout_site()).second) << step.name();
  }
  EXPECT_EQ(sites.size(), 13);
  EXPECT_EQ(*sites.rbegin(), 12);
  SegmentOptions evaluation = Options(2);
  evaluation.evaluation = true;
  SegmentSet evaluate = Compile(recipe, evaluation);
  ASSERT_EQ(evaluate.segments.size(), 2);
  EXPECT_EQ(CountKernels(evaluate, DROPOUT, ir::SegmentKind::Evaluate), 0);
  EXPECT_EQ(evaluate.stages[0].saved_bytes, 0);
  EXPECT_EQ(evaluate.segments[0].kind, ir::SegmentKind::Evaluate);
}

TEST(Segments, TensorsFollowTheRecipe) {
  Recipe recipe = SmallRecipe();
  recipe.mutable_adamw()->set_weight_decay(0.5);
  DecayOverride* exception = recipe.mutable_adamw()->add_overrides();
  exception->set_pattern("*.wte.*");
  exception->set_weight_decay(0.25);
  recipe.mutable_init()->set_normal(0.2);
  SegmentSet set = Compile(recipe, Options(2));
  ASSERT_EQ(set.tensors.size(), 2 + 4 * 12 + 2);
  const LogicalTensor& wte = set.tensors[0];
  EXPECT_EQ(wte.name(), "transformer.wte.weight");
  EXPECT_EQ(wte.shape(0), 300);
  EXPECT_EQ(wte.padded_shape(0), 384);
  EXPECT_EQ(wte.uses(), 2);
  EXPECT_EQ(wte.weight_decay(), 0.25);
  EXPECT_DOUBLE_EQ(wte.init_normal(), 0.2);
  for (const LogicalTensor& tensor : set.tensors) {
    if (tensor.name() == wte.name()) continue;
    EXPECT_EQ(tensor.weight_decay(), tensor.shape_size() >= 2 ? 0.5 : 0) << tensor.name();
    EXPECT_EQ(tensor.uses(), 1);
  }
}

TEST(Segments, SameInputSameBytes) {
  SegmentOptions options = Options(3);
  options.accumulation = EXACT;
  SegmentSet a = Compile(SmallRecipe(), options);
  SegmentSet b = Compile(SmallRecipe(), options);
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (size_t i = 0; i < a.segments.size(); ++i) {
    EXPECT_EQ(a.segments[i].segment.SerializeAsString(), b.segments[i].segment.SerializeAsString());
  }
}

TEST(Segments, PartitionIsAsAskedOrByCost) {
  SegmentOptions options = Options(2);
  options.layers_per_stage = {5, 1};
  EXPECT_EQ(Compile(SmallRecipe(), options).layers_per_stage, (std::vector<int32_t>{5, 1}));
  options.layers_per_stage.clear();
  // Only the head costs anything.
  options.cost = [](const Segment&, const Step& step, ActionKind) -> absl::StatusOr<int64_t> {
    return step.name() == "lm_head";
  };
  EXPECT_EQ(Compile(SmallRecipe(), options).layers_per_stage, (std::vector<int32_t>{1, 5}));
  options.cost = [](const Segment&, const Step&, ActionKind) -> absl::StatusOr<int64_t> {
    return absl::FailedPreconditionError("no peak");
  };
  EXPECT_EQ(Error(Graph(), SmallRecipe(), options), "no peak");
}

TEST(Segments, SaysWhatIsWrong) {
  EXPECT_NE(Error(Graph(), SmallRecipe(), Options(7)).find("cannot cut 6 layers into 7 stages"), std::string::npos);
  SegmentOptions options = Options(2);
  options.layers_per_stage = {3, 4};
  EXPECT_NE(Error(Graph(), SmallRecipe(), options).find("needed: 2 stages of at least one layer each, with 6 layers"),
            std::string::npos);
  options = Options(1);
  options.precision.set_grads(INT32);
  EXPECT_EQ(Error(Graph(), SmallRecipe(), options), "precision.grads is INT32; allowed: FP64, FP32, BF16, FP16");
  Recipe recipe = SmallRecipe();
  recipe.set_sequence_length(17);
  EXPECT_EQ(Error(Graph(), recipe, Options(1)),
            "recipe.sequence_length = 17 is more than the model's maximum of 16 positions");
  recipe.set_sequence_length(INT64_MAX);
  EXPECT_NE(Error(Graph(), recipe, Options(1)).find("must be positive"), std::string::npos);

  ModelGraph graph = Graph();
  graph.mutable_ops(5)->set_kind("matmull");
  EXPECT_NE(Error(graph, SmallRecipe(), Options(1)).find("unknown kind 'matmull'"), std::string::npos)
      << Error(graph, SmallRecipe(), Options(1));
  graph = Graph();
  graph.mutable_parameters(2)->set_shape(0, 9);
  EXPECT_NE(Error(graph, SmallRecipe(), Options(1)).find("must be 8, got 9"), std::string::npos)
      << Error(graph, SmallRecipe(), Options(1));
  graph = Graph();
  graph.mutable_ops(3)->set_inputs(0, "nothing");
  EXPECT_NE(Error(graph, SmallRecipe(), Options(1)).find("reads 'nothing', which is neither"), std::string::npos);
  graph = Graph();
  graph.mutable_parameters()->Add()->CopyFrom(graph.parameters(3));
  EXPECT_NE(Error(graph, SmallRecipe(), Options(1)).find("names must be unique"), std::string::npos);
  graph = Graph();
  graph.mutable_ops(4)->set_layer(9);
  EXPECT_NE(Error(graph, SmallRecipe(), Options(1)).find("layers must not skip a number"), std::string::npos);
  graph = Graph();
  graph.set_loss("");
  EXPECT_NE(Error(graph, SmallRecipe(), Options(1)).find("loss '' must be the output"), std::string::npos);
}

}  // namespace
}  // namespace weft
