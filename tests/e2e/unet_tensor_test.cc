// U-Nets on the axes x, y and z train like one rank. Channels are sharded like columns, images like rows.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_unet.h"

namespace weft {
namespace {

// Largest difference between the weights of two runs, which are of type `T`. AdamW's steps have about one size,
// whatever the size of a gradient. So if a gradient is only rounding noise, the weights of two runs may move in
// different directions.
template <typename T>
double MostDifferentWeight(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (size_t t = 0; t < a.weights.size(); ++t) {
    const auto* x = reinterpret_cast<const T*>(a.weights[t].data());
    const auto* y = reinterpret_cast<const T*>(b.weights[t].data());
    for (size_t i = 0; i < a.weights[t].size() / sizeof(T); ++i) {
      most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    }
  }
  return most;
}

// Checks that the plan trains like one rank. In fp32 the learning rate is small; otherwise rounding would grow beyond
// the tolerance in six steps.
void ExpectLikeOneRank(UnetPlan plan, double tolerance) {
  if (!plan.fp64) plan.learning_rate = 0.005;
  UnetPlan one = plan;
  one.mesh = "pipe1";
  one.schedule = "1f1b";
  one.schedule_fields = one.plan_fields = "";
  one.recompute = "NONE";
  const auto expected = TrainUnet(one);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto outcome = TrainUnet(plan);
  ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  ASSERT_EQ(outcome->losses.size(), 6u);
  ASSERT_LT(expected->losses.back(), expected->losses.front() - 0.02);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(outcome->losses[i], expected->losses[i], tolerance * expected->losses[i]) << plan.Name() << " " << i;
    EXPECT_NEAR(outcome->norms[i], expected->norms[i], 10 * tolerance * expected->norms[i]) << plan.Name() << " " << i;
  }
  ASSERT_EQ(outcome->weights.size(), expected->weights.size());
  for (size_t t = 0; t < expected->weights.size(); ++t) {
    ASSERT_EQ(outcome->weights[t].size(), expected->weights[t].size()) << plan.Name() << ", tensor " << t;
  }
  if (plan.fp64) {
    EXPECT_LT(MostDifferentWeight<double>(*outcome, *expected), 1e-6) << plan.Name();
  }
}

class Axes : public testing::TestWithParam<const char*> {};

TEST_P(Axes, TrainLikeOneRank) { ExpectLikeOneRank({.mesh = GetParam(), .microbatch = 2}, 1e-5); }

TEST_P(Axes, TrainLikeOneRankInDoublePrecision) {
  ExpectLikeOneRank({.mesh = GetParam(), .microbatch = 2, .fp64 = true, .scale_shift = true}, 1e-11);
}

// With y4, ranks do not have whole norm groups after a concatenation of two halves.
INSTANTIATE_TEST_SUITE_P(Meshes, Axes,
                         testing::Values("z2", "x2", "y2", "y4", "x2 y2", "y2 x2", "x2 y2 z2", "x2 z2 data2",
                                         "z2 pipe2", "y2 pipe3", "pipe2 y2 data2 x2"));

TEST(UnetTensorTest, PlansTrainLikeOneRank) {
  for (const UnetPlan& plan : std::vector<UnetPlan>{
           {.recompute = "FULL", .mesh = "x2 y2"},
           {.schedule = "zb-h1", .mesh = "x2 pipe2"},
           {.schedule = "gpipe", .mesh = "y2 pipe2", .scale_shift = true},
           {.schedule = "dualpipev", .mesh = "x2 pipe2"},
           {.plan_fields = "partition { layers_per_stage: [6, 6] }", .clip_norm = 0, .mesh = "x2 y2 pipe2"},
           {.plan_fields = "zero { stage: 3 }", .mesh = "data2"},
           // The last rank's shard of the bias of three channels is only padding.
           {.plan_fields = "zero { stage: 1 }", .mesh = "data4", .microbatch = 2},
           {.plan_fields = "zero { stage: 3 }", .mesh = "data4", .microbatch = 2},
           {.plan_fields = "zero { stage: 3 }", .mesh = "x2 y2 z2 data2", .microbatch = 2},
           // With these sizes, halves of all statistics of the norms are multiples of 64 bytes.
           {.schedule = "chimera",
            .schedule_fields = "scaling: FORWARD_DOUBLING",
            .mesh = "x2 y2 pipe2",
            .microbatch = 4,
            .batch = 16,
            .fp64 = true},
           {.exact = true, .mesh = "x2 y2 z2", .microbatch = 2}}) {
    ExpectLikeOneRank(plan, 1e-5);
  }
}

// Under exact accumulation only x, y and z affect the bits.
TEST(UnetTensorTest, ExactPlansOfOneShapeAgreeInAllBits) {
  for (const std::string axes : {"x2 y2", "z2"}) {
    const auto expected = TrainUnet({.exact = true, .mesh = axes, .microbatch = 2});
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const UnetPlan& plan :
         std::vector<UnetPlan>{{.exact = true, .mesh = axes + " data2", .microbatch = 2},
                               {.schedule = "gpipe", .exact = true, .mesh = "pipe2 " + axes, .microbatch = 2},
                               {.recompute = "FULL", .exact = true, .mesh = axes + " pipe2 data2", .microbatch = 2},
                               {.exact = true,
                                .plan_fields = "overlap { all_gather: false all_reduce: false }",
                                .mesh = axes,
                                .microbatch = 2}}) {
      const auto outcome = TrainUnet(plan);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      ExpectSame(*outcome, *expected, plan.Name());
    }
  }
}

// The compiler refuses axis sizes that do not divide the model or the microbatch, and sequence parallelism.
TEST(UnetTensorTest, Refusals) {
  struct Case {
    const char* mesh;
    const char* message;
    const char* fields = "";
  };
  for (const Case& c :
       {Case{"x4", "2 heads cannot be cut over axis x of plan.mesh, which has size 4; nearest valid: 2"},
        {"x3", "cannot be cut over axis x of plan.mesh, which has size 3; nearest valid: 2 or 4"},
        {"y8",
         "4 groups of a norm cannot be cut over axis y of plan.mesh, which has size 8; nearest "
         "valid: 4"},
        {"z2", "recipe.microbatch_sequences = 1 must be a multiple of the 2 ranks of mesh axis z"},
        {"x2", "plan.sequence_parallel must be false for model 'tiny'", "sequence_parallel: true"}}) {
    const auto refused = CompileUnet({.plan_fields = c.fields, .mesh = c.mesh});
    ASSERT_FALSE(refused.ok()) << c.mesh;
    EXPECT_NE(refused.status().message().find(c.message), absl::string_view::npos) << refused.status();
  }
}

}  // namespace
}  // namespace weft
