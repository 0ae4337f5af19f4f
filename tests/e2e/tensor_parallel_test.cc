// Tensor parallelism: ranks that share layers, rows and weights on the axes x, y and z train like one rank.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

double MostDifferent(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return most;
}

// Returns the norm of a - b divided by the norm of b, for tensors of doubles.
double Distance(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const size_t elements = b.size() / sizeof(double);
  std::vector<double> x(elements), y(elements);
  std::memcpy(x.data(), a.data(), a.size());
  std::memcpy(y.data(), b.data(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < elements; ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(difference / norm);
}

// A plan of 6 steps with two sequences per microbatch.
TinyPlan Plan6(const std::string& mesh) { return {.steps = 6, .layers = 2, .batch = 8, .microbatch = 2, .mesh = mesh}; }

void ExpectLikeOneRank(const TinyPlan& plan, double tolerance) {
  TinyPlan one = plan;
  one.mesh = "pipe1";
  one.schedule = "1f1b";
  one.schedule_fields = one.plan_fields = "";
  one.recompute = false;
  const auto expected = TrainTiny(one);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto result = TrainTiny(plan);
  ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
  ASSERT_EQ(result->losses.size(), 6u);
  EXPECT_LT(MostDifferent(result->losses, expected->losses), tolerance) << plan.Name();
  EXPECT_LT(MostDifferent(result->norms, expected->norms), 10 * tolerance) << plan.Name();
  // Clipping must be active, or norms would have no effect.
  if (plan.clip > 0) {
    EXPECT_GT(expected->norms[0], plan.clip);
  }
  // Weights are compared only in double precision. In single precision the optimizer amplifies noise where a gradient
  // is zero (biases of keys).
  if (!plan.fp64) return;
  ASSERT_EQ(result->weights.size(), expected->weights.size());
  for (size_t i = 0; i < expected->weights.size(); ++i) {
    ASSERT_EQ(result->weights[i].size(), expected->weights[i].size()) << plan.Name() << " tensor " << i;
    EXPECT_LT(Distance(result->weights[i], expected->weights[i]), 1e-6) << plan.Name() << " tensor " << i;
  }
}

class Axes : public testing::TestWithParam<const char*> {};

TEST_P(Axes, TrainLikeOneRank) { ExpectLikeOneRank(Plan6(GetParam()), 1e-5); }

TEST_P(Axes, TrainLikeOneRankInDoublePrecision) {
  TinyPlan plan = Plan6(GetParam());
  plan.fp64 = true;
  ExpectLikeOneRank(plan, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Axes,
                         testing::Values("x2", "y2", "z2", "x2 y2", "y2 x2", "x2 z2", "y2 z2", "x2 y2 z2", "z2 y2 x2",
                                         "y2 data2 x2", "x2 z2 data2", "x2 pipe2", "y2 pipe2", "z2 pipe2",
                                         "x2 y2 z2 pipe2", "pipe2 z2 data2 x2"));

// Tensor-parallel plans also train like one rank if other plan settings change.
TEST(TensorParallelTest, PlansTrainLikeOneRank) {
  std::vector<TinyPlan> plans;
  auto add = [&](const char* mesh) -> TinyPlan& { return plans.emplace_back(Plan6(mesh)); };
  add("x2 y2 z2").recompute = true;
  add("x2 y2 pipe2").schedule = "gpipe";
  add("x2 z2 pipe2").schedule = "zb-h1";
  add("y2 z2 pipe2").schedule = "zb-h1";
  add("x2 pipe2").schedule = "chimera";
  add("x2 y2 z2 pipe2").schedule_fields = "scaling: FORWARD_DOUBLING";
  plans.back().schedule = "chimera";
  add("x2 pipe2").schedule_fields = "scaling: FORWARD_DOUBLING";
  plans.back().schedule = "chimera";
  plans.back().plan_fields = "sequence_parallel: true";
  add("x2 z2 pipe2").schedule_fields = "freeze: true";
  plans.back().schedule = "axonn";
  plans.back().exact = true;
  add("x2 y2 z2").dropout = 0;
  add("y2 z2").clip = 0;
  add("x2 y2 z2 data2").exact = true;
  for (const TinyPlan& plan : plans) ExpectLikeOneRank(plan, 1e-5);
}

TEST(TensorParallelTest, RowsSplitOverXTrainLikeOneRank) {
  for (const char* mesh : {"x2", "x2 z2", "x2 pipe2", "data2 x2"}) {
    for (const bool exact : {false, true}) {
      TinyPlan plan = Plan6(mesh);
      plan.plan_fields = "sequence_parallel: true";
      plan.exact = exact;
      plan.recompute = exact;
      ExpectLikeOneRank(plan, 1e-5);
    }
  }
}

TEST(TensorParallelTest, ParametersCutOverReplicasTrainLikeOneRank) {
  for (const char* mesh : {"data2", "data4", "data2 pipe2", "z2 data2", "x2 y2 z2 data2"}) {
    for (const bool exact : {false, true}) {
      TinyPlan plan = Plan6(mesh);
      plan.plan_fields = "zero { stage: 3 }";
      plan.exact = exact;
      ExpectLikeOneRank(plan, 1e-5);
    }
  }
}

// Covers grouped heads, rotary positions, root mean square norms, gated units, and BERT's decoder, which is sharded
// like the embedding.
TEST(TensorParallelTest, FamiliesTrainLikeOneRank) {
  struct Case {
    const char* family;
    const char* mesh;
    const char* fields;
  };
  for (const Case& c : {Case{"llama", "x2 y2 z2", ""},
                        {"llama", "x2 pipe2", "sequence_parallel: true"},
                        {"mistral", "y2 z2", ""},
                        {"qwen2", "x2 y2 data2", ""},
                        {"relu2", "x2 y2 data2", ""},
                        {"qwen2", "z2 data2", "zero { stage: 3 }"},
                        {"bert", "x2 y2 z2", ""},
                        {"bert", "y2 pipe2", ""},
                        {"bert", "x2", "sequence_parallel: true"},
                        {"bert", "z2 data2", ""}}) {
    TinyPlan plan = Plan6(c.mesh);
    plan.family = c.family;
    plan.plan_fields = c.fields;
    ExpectLikeOneRank(plan, 1e-5);
  }
}

// The compiler refuses axis sizes that do not divide heads or microbatches, and settings that the schedule excludes.
// The error names them.
TEST(TensorParallelTest, RefusesAxisSizesThatDoNotDivide) {
  struct Case {
    const char* family;
    const char* mesh;
    const char* message;
    const char* schedule = "1f1b";
    const char* fields = "";
  };
  for (const Case& c :
       {Case{"gpt2", "x4",
             "2 heads cannot be cut over axis x of plan.mesh, which has size 4; nearest "
             "valid: 2"},
        {"gpt2", "z3",
         "recipe.microbatch_sequences = 2 must be a multiple of the 3 ranks of mesh axis "
         "z, which share a microbatch; nearest valid: 3"},
        {"gpt2", "x2 pipe2", "mesh axes x, y and z must have size 1 with this schedule; or set plan.schedule.freeze",
         "axonn"},
        {"gpt2", "data2 pipe2", "plan.zero.stage must be 0 or 1 with this schedule", "axonn", "zero { stage: 3 }"}}) {
    TinyPlan plan = Plan6(c.mesh);
    plan.family = c.family;
    plan.schedule = c.schedule;
    plan.plan_fields = c.fields;
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_FALSE(program.ok()) << plan.Name();
    EXPECT_NE(program.status().message().find(c.message), absl::string_view::npos) << program.status();
  }
}

// Checks that all of `others`, which are variants of `plan`, train to the same bits as `plan`.
void ExpectSameBits(const TinyPlan& plan, const std::vector<TinyPlan>& others) {
  const auto expected = TrainTiny(plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const TinyPlan& other : others) {
    const auto result = TrainTiny(other);
    ASSERT_TRUE(result.ok()) << other.Name() << ": " << result.status();
    ExpectSame(*result, *expected, other.Name());
  }
}

// With in-order accumulation, pipeline depth, schedule and recomputation do not change bits.
TEST(TensorParallelTest, PlansOfOneShapeAgreeInAllBits) {
  for (const char* shape : {"x2 y2", "x2 z2"}) {
    const TinyPlan plan = Plan6(shape);
    std::vector<TinyPlan> others;
    auto add = [&](const char* more) -> TinyPlan& {
      TinyPlan& other = others.emplace_back(plan);
      absl::StrAppend(&other.mesh, more);
      return other;
    };
    add("").recompute = true;
    add(" pipe2");
    add(" pipe2").schedule = "zb-h1";
    add(" pipe2").recompute_fields = "mode: INTERVAL interval: 2";
    ExpectSameBits(plan, others);
  }
}

// Under exact accumulation only x, y, z and the algorithm of the collectives affect the bits.
TEST(TensorParallelTest, ExactPlansOfOneShapeAgreeInAllBits) {
  for (const char* fields : {"", "collective: 'direct'"}) {
    TinyPlan plan = Plan6("x2 y2 z2");
    plan.exact = true;
    plan.plan_fields = fields;
    std::vector<TinyPlan> others;
    for (const char* mesh : {"z2 y2 x2", "x2 y2 z2 data2", "x2 data2 y2 z2", "x2 y2 z2 pipe2"}) {
      for (const char* schedule : {"1f1b", "gpipe"}) {
        TinyPlan& other = others.emplace_back(plan);
        other.mesh = mesh;
        other.schedule = schedule;
      }
    }
    ExpectSameBits(plan, others);
  }
}

TEST(TensorParallelTest, ExactPlansDoNotDependOnZero) {
  for (const char* shape : {"", "z2 ", "x2 "}) {
    TinyPlan plan = Plan6(absl::StrCat(shape, "data2"));
    plan.exact = true;
    std::vector<TinyPlan> others;
    for (const char* mesh : {"data2", "data4", "data2 pipe2"}) {
      TinyPlan& other = others.emplace_back(plan);
      other.plan_fields = "zero { stage: 3 }";
      other.mesh = absl::StrCat(shape, mesh);
    }
    ExpectSameBits(plan, others);
  }
}

// Tests the recompute modes that recompute some of the layers or let the compiler choose.
TEST(TensorParallelTest, RecomputeChangesNoBit) {
  TinyPlan plan = Plan6("pipe1");
  plan.layers = 4;
  std::vector<TinyPlan> others;
  for (const char* mesh : {"pipe1", "pipe2"}) {
    for (const char* recompute : {"mode: INTERVAL", "mode: INTERVAL interval: 3", "mode: AXONN", "mode: FIT",
                                  "mode: EVERY every: 2", "mode: LAYERS layers: [1, 3]"}) {
      TinyPlan& other = others.emplace_back(plan);
      other.mesh = mesh;
      other.recompute_fields = recompute;
    }
  }
  ExpectSameBits(plan, others);
}

}  // namespace
}  // namespace weft
