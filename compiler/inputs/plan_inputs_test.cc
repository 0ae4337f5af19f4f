#include "compiler/inputs/plan_inputs.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlanInputsTest : public testing::Test {
 protected:
  absl::StatusOr<PlanInputs> Resolve(const std::string& plan, const std::string& recipe = "") {
    Recipe full = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16 dropout: 0");
    full.MergeFrom(Parse<Recipe>(recipe));
    return ResolveInputs(model_, full, Parse<Plan>(plan), cluster_, &notes_);
  }
  PlanInputs Good(const std::string& plan, const std::string& recipe = "") {
    auto inputs = Resolve(plan, recipe);
    EXPECT_TRUE(inputs.ok()) << inputs.status();
    return inputs.ok() ? *std::move(inputs) : PlanInputs();
  }
  std::string Error(const std::string& plan, const std::string& recipe = "") {
    const absl::Status status = Resolve(plan, recipe).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  ModelGraph model_ = TinyGpt2(8);
  Cluster cluster_ = TinyCluster();
  std::vector<std::string> notes_;
};

constexpr char kPipe[] = "mesh { axes { name: 'data' size: 2 } axes { name: 'pipe' size: 4 } } ";

// PipeDream requires one microbatch per replica and iteration, and no norm.
constexpr char kOneEach[] = "global_batch_sequences: 2 clip_norm: 0";

TEST_F(PlanInputsTest, EveryDefaultIsFilledIn) {
  const PlanInputs inputs = Good("");
  EXPECT_EQ(inputs.microbatches, 16);
  EXPECT_EQ(inputs.schedule.stages, 1);
  EXPECT_FALSE(inputs.asynchronous.has_value());
  for (const DType dtype :
       {inputs.plan.precision().compute(), inputs.plan.precision().params(), inputs.plan.precision().grads(),
        inputs.plan.precision().master(), inputs.plan.precision().moments()}) {
    EXPECT_NE(dtype, DTYPE_UNSPECIFIED);
  }
  EXPECT_NE(inputs.plan.collective(), "");
  EXPECT_NE(inputs.plan.schedule().name(), "");
  EXPECT_THAT(notes_, IsEmpty());
  // Resolved inputs resolve to themselves.
  std::vector<std::string> notes;
  const auto again = ResolveInputs(inputs.model, inputs.recipe, inputs.plan, inputs.cluster, &notes);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->plan.DebugString(), inputs.plan.DebugString());
  EXPECT_EQ(again->recipe.DebugString(), inputs.recipe.DebugString());
}

TEST_F(PlanInputsTest, MicrobatchesOfAReplica) {
  EXPECT_EQ(Good(kPipe).microbatches, 8);
  EXPECT_EQ(Good(kPipe, "microbatch_sequences: 2").microbatches, 4);
  EXPECT_EQ(Good(kPipe).schedule.stages, 4);
  EXPECT_EQ(Good(absl::StrCat(kPipe, "schedule { name: 'interleaved' virtual_stages: 2 }")).schedule.stages, 8);
  // Each pair of stage and microbatch is at least one action. More than 2^18 pairs are refused before any list is made.
  EXPECT_THAT(
      Error(kPipe, absl::StrCat("global_batch_sequences: ", int64_t{1} << 30)),
      AllOf(HasSubstr("recipe.global_batch_sequences = 1073741824"), HasSubstr("at most 65536 for 4 pipe ranks")));
  EXPECT_EQ(Good(kPipe, "global_batch_sequences: 131072").microbatches, 65536);
  EXPECT_THAT(Error(absl::StrCat(kPipe, "schedule { name: 'interleaved' virtual_stages: 2 }"),
                    "global_batch_sequences: 131072"),
              HasSubstr("at most 32768 for 8 stages"));
}

TEST_F(PlanInputsTest, HalvesOfMicrobatchesAreTheProgramsMicrobatches) {
  const std::string plan =
      "mesh { axes { name: 'pipe' size: 4 } } schedule { name: 'chimera' scaling: BACKWARD_HALVING } ";
  const PlanInputs inputs = Good(plan, "microbatch_sequences: 2");
  EXPECT_EQ(inputs.recipe.microbatch_sequences(), 1);
  EXPECT_EQ(inputs.microbatches, 16);
  EXPECT_THAT(
      Error(plan, "microbatch_sequences: 1"),
      AllOf(HasSubstr("BACKWARD_HALVING"), HasSubstr("recipe.microbatch_sequences = 1 must be even; nearest: 2")));
}

TEST_F(PlanInputsTest, SchedulesByNameAndByDefinition) {
  EXPECT_TRUE(absl::IsNotFound(Resolve(absl::StrCat(kPipe, "schedule { name: 'gipe' }")).status()));
  EXPECT_TRUE(absl::IsNotFound(Resolve(absl::StrCat(kPipe, "collective: 'rng'")).status()));
  EXPECT_THAT(Error(absl::StrCat(kPipe, "schedule { name: 'gpipe' freeze: true }")),
              HasSubstr("plan.schedule.freeze is given"));
  // If the schedule never flushes, microbatches count one iteration, and the default number of iterations is the
  // smallest possible.
  const PlanInputs inputs = Good(absl::StrCat(kPipe, "schedule { name: 'pipedream' }"), kOneEach);
  ASSERT_TRUE(inputs.asynchronous.has_value());
  EXPECT_EQ(inputs.recipe.steps(), inputs.asynchronous->steps_per_repetition);
  EXPECT_EQ(inputs.asynchronous->microbatches,
            inputs.asynchronous->microbatches_per_step * inputs.asynchronous->steps_per_repetition);
}

TEST_F(PlanInputsTest, ThePartsOfAPlanMustGoTogether) {
  EXPECT_THAT(Error(absl::StrCat(kPipe, "partition { layers_per_stage: [3, 3, 3] }")),
              HasSubstr("plan.partition.layers_per_stage has 3 entries; it must have 4, one per stage, or none"));
  EXPECT_THAT(Error(absl::StrCat(kPipe, "recompute { mode: LAYERS layers: 50 }")),
              HasSubstr("plan.recompute.layers[0] = 50"));
  EXPECT_THAT(Error(absl::StrCat(kPipe, "zero { stage: 3 reshard: LAYERS kept_layers: [1, 60] }")),
              HasSubstr("plan.zero.kept_layers[1] = 60"));
  EXPECT_THAT(Error("mesh { axes { name: 'pipe' size: 16 } }"), HasSubstr("nearest valid: pp = 10"));
  EXPECT_THAT(Error(absl::StrCat(kPipe, "precision { params: FP32 compute: FP32 }"), "weight_rounding: STOCHASTIC"),
              AllOf(HasSubstr("recipe.weight_rounding = STOCHASTIC"), HasSubstr("plan.precision.params = FP32")));
}

TEST_F(PlanInputsTest, OffloadedOptimizersSumByTheirBuckets) {
  const std::string plan =
      absl::StrCat(kPipe, "precision { compute: FP32 params: FP32 grads: FP32 } offload { optimizer: true ");
  PlanInputs inputs = Good(plan + "}");
  EXPECT_EQ(inputs.plan.offload().bucket_elements(), int64_t{1} << 24);
  EXPECT_EQ(inputs.plan.offload().buckets_per_reduce(), 4);
  EXPECT_EQ(inputs.plan.gradient_bucket_bytes(), (int64_t{1} << 24) * 4 * 4);
  inputs = Good(plan + "bucket_elements: 1024 buckets_per_reduce: 3 } accumulation: EXACT");
  EXPECT_EQ(inputs.plan.gradient_bucket_bytes(), 1024 * 3 * 24);
  // The product of these sizes exceeds any count of bytes.
  inputs = Good(plan + "bucket_elements: 140737488355328 buckets_per_reduce: 1048576 }");
  EXPECT_GT(inputs.plan.gradient_bucket_bytes(), int64_t{1} << 49);
  // The user states the bucket size.
  inputs = Good(plan + "} gradient_bucket_bytes: 4096");
  EXPECT_EQ(inputs.plan.gradient_bucket_bytes(), 4096);
  EXPECT_THAT(Error(plan + "buckets_per_reduce: 2 } gradient_bucket_bytes: 4096"), HasSubstr("leave one out"));
  EXPECT_THAT(Error(plan + "bucket_elements: 1 }"), HasSubstr("plan.offload.bucket_elements = 1 must be at least"));
  EXPECT_THAT(Error(plan + "} post_validation: true"), HasSubstr("does not go with plan.post_validation"));
  EXPECT_THAT(Error(plan + "} schedule { name: 'pipedream' }", kOneEach),
              HasSubstr("plan.offload.optimizer = true does not go"));
  cluster_.clear_host();
  EXPECT_THAT(Error(plan + "}"), HasSubstr("needs cluster.host.bytes_per_second"));
  EXPECT_THAT(Error(absl::StrCat(kPipe, "offload { activation_layers: 2 }")),
              HasSubstr("plan.offload.activation_layers = 2 needs cluster.host.bytes_per_second"));
}

TEST_F(PlanInputsTest, AddsNotesForTheUser) {
  model_ = TinyGpt2(2, R"(, "resid_pdrop": 0.25)");
  Recipe recipe = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16");
  const auto inputs = ResolveInputs(model_, recipe, Plan(), cluster_, &notes_);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_TRUE(inputs->recipe.has_dropout());
  EXPECT_EQ(inputs->recipe.dropout(), 0);
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("dropout 0.25"), HasSubstr("recipe.dropout is not set"))));
  // `notes` may be null.
  EXPECT_TRUE(ResolveInputs(model_, recipe, Plan(), cluster_, nullptr).ok());
}

TEST_F(PlanInputsTest, MomentsThatStarveAreNoted) {
  const std::string plan = "precision { compute: BF16 params: BF16 grads: FP32 master: FP32 moments: BF16 }";
  Good(plan, "adamw { beta2: 0.95 }");
  Good(plan, "adamw { beta2: 0.999 } weight_rounding: STOCHASTIC");
  Good(plan, "sgd { momentum: 0.9 }");
  Good("precision { compute: BF16 }", "adamw { beta2: 0.999 }");
  EXPECT_THAT(notes_, IsEmpty());
  Good(plan, "adamw { beta2: 0.999 }");
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("plan.precision.moments = BF16"), HasSubstr("beta2 = 0.999"),
                                        HasSubstr("weight_rounding = STOCHASTIC, which rounds moments too"))));
  const Recipe recipe =
      Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16 dropout: 0 adamw { beta2: 0.999 }");
  const auto quiet = ResolveInputs(model_, recipe, Parse<Plan>(plan), cluster_, nullptr);
  EXPECT_TRUE(quiet.ok()) << quiet.status();
}

TEST_F(PlanInputsTest, NobodyHasToListen) {
  const Recipe recipe = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16");
  EXPECT_TRUE(ResolveInputs(model_, recipe, Plan(), cluster_, nullptr).ok());
}

}  // namespace
}  // namespace weft
