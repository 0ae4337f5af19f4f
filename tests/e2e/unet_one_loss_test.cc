// N plans, one loss, for a U-Net: skip connections cross stages, also to the next stage, and every level has its own
// number of rows. Losses, gradient norms and weights are the same bits under every pipeline, schedule and
// recomputation; under exact accumulation also with replicas and message-driven orders.
#include <cstring>
#include <string>
#include <vector>

#include "executor/data/data.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "simulator/simulate.h"
#include "tests/e2e/tiny_unet.h"

namespace weft {
namespace {

std::string ImagePath() {
  static const std::string path = [] {
    const std::string file = ::testing::TempDir() + "/waves.img";
    EXPECT_TRUE(WriteTinyImages(file).ok());
    return file;
  }();
  return path;
}

// The results that must be equal bit for bit; weights as bytes.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::byte>> weights;
};

absl::StatusOr<Outcome> Train(const UnetPlan& plan) {
  const absl::StatusOr<Program> program = CompileUnet(plan);
  if (!program.ok()) return program.status();
  const auto data = exec::OpenData(exec::DataOptionsOf(*program, ImagePath()));
  if (!data.ok()) return data.status();
  exec::RunOptions options;
  options.collect_weights = true;
  options.threads_per_rank = plan.threads;
  const absl::StatusOr<exec::RunResult> result = exec::RunInProcess(*program, **data, options);
  if (!result.ok()) return result.status();
  Outcome outcome;
  for (const RunStep& step : result->report.steps()) {
    outcome.losses.push_back(step.loss());
    outcome.norms.push_back(step.grad_norm());
  }
  for (const exec::TensorData& tensor : result->weights) outcome.weights.push_back(tensor.bytes);
  return outcome;
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

void ExpectSame(const std::vector<UnetPlan>& plans) {
  const auto expected = Train(plans[0]);
  ASSERT_TRUE(expected.ok()) << plans[0].Name() << ": " << expected.status();
  ASSERT_EQ(expected->losses.size(), 6u);
  // The last convolution starts at zero, so the first loss is the variance of the noise.
  EXPECT_NEAR(expected->losses.front(), 1, 0.15);
  EXPECT_LT(expected->losses.back(), expected->losses.front() - 0.02);
  for (size_t i = 1; i < plans.size(); ++i) {
    SCOPED_TRACE(plans[i].Name());
    const auto outcome = Train(plans[i]);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_TRUE(SameBits(outcome->losses, expected->losses));
    EXPECT_TRUE(SameBits(outcome->norms, expected->norms));
    ASSERT_EQ(outcome->weights.size(), expected->weights.size());
    for (size_t t = 0; t < expected->weights.size(); ++t) {
      EXPECT_TRUE(outcome->weights[t] == expected->weights[t]) << "tensor " << t;
    }
    for (size_t s = 0; s < expected->losses.size() && !SameBits(outcome->losses, expected->losses); ++s) {
      ADD_FAILURE() << "step " << s << ": " << outcome->losses[s] << " against " << expected->losses[s];
    }
  }
}

TEST(UnetOneLossTest, PipelineScheduleAndRecomputeDoNotMatter) {
  ExpectSame(
      {{},
       {.pipe = 2, .threads = 2},
       {.pipe = 2, .schedule = "gpipe", .recompute = "FULL"},
       {.pipe = 4, .schedule = "1f1b", .recompute = "FULL"},
       {.pipe = 4, .schedule = "zb-h1"},
       {.pipe = 3, .schedule = "zb-h1", .recompute = "FULL"},
       {.pipe = 2, .schedule = "interleaved", .schedule_fields = "virtual_stages: 2"},
       {.pipe = 2, .schedule = "dualpipev"},
       {.pipe = 2, .plan_fields = "loss_scale { fixed: 256 }"},
       {.pipe = 2, .plan_fields = "partition { layers_per_stage: [6, 6] }"},
       {.pipe = 4, .plan_fields = "transfer_order: TOGETHER transfer_placement: DEFERRED group_transfers: true"}});
}

TEST(UnetOneLossTest, ReplicasAndMessageOrderDoNotMatterUnderExactAccumulation) {
  ExpectSame({{.exact = true},
              {.pipe = 2, .data = 2, .exact = true},
              {.pipe = 4, .schedule = "axonn", .exact = true},
              {.data = 4, .recompute = "FULL", .exact = true}});
}

TEST(UnetOneLossTest, MixedPrecisionDoesNotDependOnThePipeline) {
  ExpectSame({{.bf16 = true}, {.pipe = 3, .schedule = "gpipe", .recompute = "FULL", .bf16 = true}});
  ExpectSame({{.fp16 = true}, {.pipe = 3, .schedule = "gpipe", .recompute = "FULL", .fp16 = true}});
}

// Tests forwards of two microbatches. With one sample each, halves of the statistics do not fill multiples of 64 bytes
// and are not contiguous.
TEST(UnetOneLossTest, DoubledForwardsDoNotMatter) {
  for (const int microbatch : {1, 2}) {
    ExpectSame({{.exact = true, .microbatch = microbatch, .fp64 = true},
                {.pipe = 2,
                 .schedule = "chimera",
                 .exact = true,
                 .schedule_fields = "scaling: FORWARD_DOUBLING",
                 .microbatch = microbatch,
                 .fp64 = true}});
  }
}

// If the model is cut in the middle of the U, the second stage reads the output of the first stage and the skip
// connections of every level.
TEST(UnetOneLossTest, SkipConnectionsLeadToTheNextStage) {
  const auto program = CompileUnet({.pipe = 2, .plan_fields = "partition { layers_per_stage: [6, 6] }"});
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_GE(program->skips_size(), 4);
  for (const SkipEdge& skip : program->skips()) {
    EXPECT_EQ(skip.from_stage(), 0);
    EXPECT_EQ(skip.to_stage(), 1);
  }
  const auto simulated = sim::Simulate(*program, TinyCluster(), {});
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_GT(simulated->report.mfu(), 0);
}

TEST(UnetOneLossTest, RefusalsNameTheField) {
  const auto asynchronous = CompileUnet({.pipe = 2, .schedule = "pipedream-2bw", .clip_norm = 0});
  EXPECT_NE(asynchronous.status().message().find("from stage 0 to stage 1 by a skip connection"),
            absl::string_view::npos)
      << asynchronous.status();
  const auto none = CompileUnet({}, 0);
  EXPECT_NE(none.status().message().find("recipe.sequence_length is missing or 0; it must be 64"),
            absl::string_view::npos)
      << none.status();
  const auto other = CompileUnet({}, 63);
  EXPECT_NE(other.status().message().find("recipe.sequence_length = 63"), absl::string_view::npos) << other.status();
  EXPECT_NE(other.status().message().find("64"), absl::string_view::npos) << other.status();
}

}  // namespace
}  // namespace weft
