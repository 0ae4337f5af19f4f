#include "compiler/lower_program.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPlan[] = "mesh { axes { name: 'data' size: 2 } axes { name: 'pipe' size: 3 } } ";

PlanInputs Inputs(const std::string& plan, const std::string& recipe = "", const ModelGraph& model = TinyGpt2(5)) {
  Recipe full = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 8 dropout: 0.1 clip_norm: 1");
  full.MergeFrom(Parse<Recipe>(recipe));
  auto inputs = ResolveInputs(model, full, Parse<Plan>(kPlan + plan), TinyCluster(), nullptr);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  return inputs.ok() ? *std::move(inputs) : PlanInputs();
}

StepCost Costs(const PlanInputs& inputs) {
  auto cost = CostsOf(inputs);
  EXPECT_TRUE(cost.ok()) << cost.status();
  return *std::move(cost);
}

Program Training(const PlanInputs& inputs) {
  CompileContext context;
  auto program = CompileTraining(context, inputs, Costs(inputs), nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

int Count(const Program& program, ActionKind kind) {
  int count = 0;
  for (const Template& t : program.templates()) {
    count += static_cast<int>(
        std::count_if(t.body().begin(), t.body().end(), [&](const Action& action) { return action.kind() == kind; }));
  }
  return count;
}

TEST(CostsOf, AStepCostsWhatTheClusterSays) {
  const PlanInputs inputs = Inputs("");
  const StepCost cost = Costs(inputs);
  // Products limit a step at 1e13 flops a second, or memory limits it at 1e12 bytes a second.
  const auto of = [&](const std::string& step) { return *cost(Segment(), Parse<Step>(step), FORWARD); };
  const int64_t products = of("kernel: MATMUL work { flops: 10000000000 bytes: 1000 dtype: FP32 }");
  EXPECT_NEAR(static_cast<double>(products), 1e9, 1e8);
  EXPECT_NEAR(static_cast<double>(of("kernel: MATMUL work { flops: 20000000000 bytes: 1000 dtype: FP32 }")),
              2.0 * static_cast<double>(products), 1e7);
  EXPECT_NEAR(static_cast<double>(of("kernel: ADD work { bytes: 1000000000 dtype: FP32 }")), 1e9, 1e8);
  // A type without a peak has no cost.
  const auto unknown = cost(Segment(), Parse<Step>("kernel: MATMUL work { flops: 1000 dtype: FP64 }"), FORWARD);
  EXPECT_FALSE(unknown.ok());
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("no peak for fp64"));
}

TEST(CostsOf, ModelsThatAreOfMachines) {
  PlanInputs inputs = Inputs("");
  inputs.cost = "roofine";
  EXPECT_TRUE(absl::IsNotFound(CostsOf(inputs).status())) << CostsOf(inputs).status();
  inputs.cost = "unit";
  EXPECT_THAT(std::string(CostsOf(inputs).status().message()), HasSubstr("cost model 'unit'"));
}

// Checks the segments that the rank level receives and the lists that it produces.
TEST(LowerTraining, SegmentsAndListsOfEveryRank) {
  const PlanInputs inputs = Inputs("");
  CompileContext context;
  auto level = LowerTraining(context, inputs, Costs(inputs));
  ASSERT_TRUE(level.ok()) << level.status();
  EXPECT_EQ(level->segments.stages.size(), 3u);
  int layers = 0;
  for (const int32_t of_stage : level->segments.layers_per_stage) layers += of_stage;
  // The layer of the embedding, five blocks, and the layer of the loss.
  EXPECT_EQ(layers, 7);
  for (const StageIndex& stage : level->segments.stages) {
    EXPECT_GE(stage.forward, 0);
    EXPECT_GE(stage.backward, 0);
    // No action runs the halves of a backward.
    EXPECT_EQ(stage.backward_input, -1);
  }
  EXPECT_TRUE(level->program());
}

// In this schedule the gradients of microbatch 1 are added before the gradients of microbatch 0, which only exact sums
// allow (rule P9).
TEST(LowerTraining, SumsInAnotherOrderMustBeExact) {
  for (const char* accumulation : {"IN_ORDER", "EXACT"}) {
    auto inputs = ResolveInputs(
        TinyGpt2(5), Parse<Recipe>("sequence_length: 16 global_batch_sequences: 2"),
        Parse<Plan>(absl::StrCat(R"(schedule { definition: "weft schedule 1\nname: mine\nranks: 1\nmicrobatches: 2\n)",
                                 R"(rank 0: F0.0 F0.1 B0.1 B0.0\n" } accumulation: )", accumulation)),
        TinyCluster(), nullptr);
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    CompileContext context;
    const absl::Status status = LowerTraining(context, *inputs, Costs(*inputs)).status();
    if (std::string(accumulation) == "EXACT") {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("B s0 m0 comes after B s0 m1"));
    }
  }
}

TEST(CompileTraining, TheHeaderSaysWhatItIsOf) {
  const PlanInputs inputs = Inputs("step_barrier: true accumulation: EXACT");
  CompileContext context;
  RankLevel level;
  const auto program = CompileTraining(context, inputs, Costs(inputs), &level);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name(), "tiny");
  EXPECT_EQ(program->cluster_name(), "test");
  EXPECT_NE(program->cluster_digest(), 0u);
  EXPECT_EQ(program->recipe().DebugString(), inputs.recipe.DebugString());
  EXPECT_EQ(program->precision().DebugString(), inputs.plan.precision().DebugString());
  EXPECT_EQ(program->accumulation(), EXACT);
  EXPECT_EQ(program->vocabulary(), 100);
  EXPECT_TRUE(program->step_barrier());
  EXPECT_FALSE(program->has_evaluation());
  // The flops of four microbatches on each of two replicas.
  EXPECT_DOUBLE_EQ(program->model_flops(), static_cast<double>(level.segments.model_flops) * 8);
  EXPECT_GT(program->model_flops_masked(), 0);
  EXPECT_LT(program->model_flops_masked(), program->model_flops());
  EXPECT_TRUE(VerifyProgram(*program).ok()) << VerifyProgram(*program);
}

TEST(CompileTraining, ClippingIsAnActionOnlyWhereTheUpdateDoesNotClip) {
  EXPECT_EQ(Count(Training(Inputs("")), SCALE_GRADIENTS), 3);
  EXPECT_EQ(Count(Training(Inputs("", "clip_norm: 0")), SCALE_GRADIENTS), 0);
  EXPECT_EQ(Count(Training(Inputs("loss_scale { fixed: 64 }")), SCALE_GRADIENTS), 0);
  EXPECT_EQ(Count(Training(Inputs("")), OPTIMIZER_STEP), 3);
}

// The evaluation program uses the same persistent bytes and runs only forwards, without dropout.
TEST(LowerPlan, TheEvaluationIsOfTheSameStages) {
  const PlanInputs inputs = Inputs("");
  std::vector<int32_t> layers;
  const auto with = LowerPlan(inputs, Costs(inputs), /*evaluation=*/true, &layers, nullptr);
  ASSERT_TRUE(with.ok()) << with.status();
  const auto without = LowerPlan(inputs, Costs(inputs), /*evaluation=*/false, nullptr, nullptr);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(without->has_evaluation());
  Program training = *with;
  training.clear_evaluation();
  EXPECT_EQ(training.SerializeAsString(), without->SerializeAsString());
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0] + layers[1] + layers[2], 7);
  const Program& evaluation = with->evaluation();
  EXPECT_EQ(evaluation.recipe().dropout(), 0);
  EXPECT_EQ(with->recipe().dropout(), 0.1);
  EXPECT_GT(Count(evaluation, FORWARD), 0);
  for (const ActionKind kind : {BACKWARD, GRAD_NORM, OPTIMIZER_STEP}) EXPECT_EQ(Count(evaluation, kind), 0);
  ASSERT_EQ(evaluation.templates_size(), with->templates_size());
  for (int t = 0; t < with->templates_size(); ++t) {
    std::map<std::string, int64_t> offsets;
    for (const Buffer& buffer : with->templates(t).buffers()) {
      if (buffer.role() == PARAM) offsets[buffer.name()] = buffer.offset();
    }
    EXPECT_THAT(offsets, Not(IsEmpty()));
    for (const Buffer& buffer : evaluation.templates(t).buffers()) {
      if (buffer.role() != PARAM) continue;
      EXPECT_EQ(buffer.offset(), offsets.at(buffer.name())) << buffer.name();
    }
  }
}

TEST(LowerPlan, TheSameBytesEveryTime) {
  const PlanInputs inputs = Inputs("zero { stage: 2 } recompute { mode: FULL }");
  const auto once = LowerPlan(inputs, Costs(inputs), true, nullptr, nullptr);
  const auto again = LowerPlan(inputs, Costs(inputs), true, nullptr, nullptr);
  ASSERT_TRUE(once.ok()) << once.status();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(once->SerializeAsString(), again->SerializeAsString());
}

TEST(LowerPlan, AnAsynchronousRepetitionHasAllItsSteps) {
  const PlanInputs inputs = Inputs("schedule { name: 'pipedream' }", "clip_norm: 0 global_batch_sequences: 2",
                                   TinyGpt2(5, R"(, "tie_word_embeddings": false)"));
  ASSERT_TRUE(inputs.asynchronous.has_value());
  std::vector<int32_t> layers;
  const auto program = LowerPlan(inputs, Costs(inputs), /*evaluation=*/true, &layers, nullptr);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->steps_per_repetition(), inputs.asynchronous->steps_per_repetition);
  EXPECT_EQ(program->microbatches(), inputs.asynchronous->microbatches);
  EXPECT_EQ(program->name(), "tiny");
  EXPECT_EQ(layers.size(), 3u);
  EXPECT_EQ(Count(*program, OPTIMIZER_STEP), 3 * inputs.asynchronous->steps_per_repetition);
  EXPECT_TRUE(VerifyProgram(*program).ok()) << VerifyProgram(*program);
}

TEST(LowerPlan, OffloadMovesWhatThePlanAsksFor) {
  const auto places = [](const Program& program) {
    std::map<BufferRole, std::map<Place, int>> count;
    for (const Buffer& buffer : program.templates(0).buffers()) ++count[buffer.role()][buffer.place()];
    return count;
  };
  const auto lowered = [](const PlanInputs& inputs) {
    std::vector<std::string> notes;
    auto program = LowerPlan(inputs, Costs(inputs), /*evaluation=*/false, nullptr, &notes);
    EXPECT_TRUE(program.ok()) << program.status();
    EXPECT_THAT(notes, IsEmpty());
    return program.ok() ? *std::move(program) : Program();
  };
  const PlanInputs plain = Inputs("");
  EXPECT_EQ(lowered(plain).SerializeAsString(), Training(plain).SerializeAsString());
  EXPECT_EQ(places(lowered(plain))[MOMENT1].count(HOST), 0u);

  const Program program = lowered(Inputs("offload { optimizer: true }"));
  EXPECT_GT(places(program)[MOMENT1][HOST], 0);
  EXPECT_GT(Count(program, FETCH), 0);
  EXPECT_GT(Count(program, OFFLOAD), 0);
  EXPECT_TRUE(VerifyProgram(program).ok()) << VerifyProgram(program);
}

}  // namespace
}  // namespace weft
