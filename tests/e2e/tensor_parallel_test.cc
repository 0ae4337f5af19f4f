// Tensor parallelism: ranks that share layers, rows and weights on the axes x, y and z train like one rank.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run.h"
#include "gtest/gtest.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

std::string TextPath() {
  static const std::string path = [] {
    const std::string file = ::testing::TempDir() + "/tiny.txt";
    EXPECT_TRUE(WriteTinyText(file).ok());
    return file;
  }();
  return path;
}

absl::StatusOr<RunResult> Train(const TinyPlan& plan) {
  const absl::StatusOr<Program> program = CompileTiny(plan);
  if (!program.ok()) return program.status();
  const auto data = OpenTinyText(TextPath(), *program);
  if (!data.ok()) return data.status();
  RunOptions options;
  options.collect_weights = true;
  return RunInProcess(*program, **data, options);
}

double MostDifferent(const RunResult& a, const RunResult& b, bool norms) {
  double most = 0;
  for (int i = 0; i < a.report.steps_size(); ++i) {
    const double x = norms ? a.report.steps(i).grad_norm() : a.report.steps(i).loss();
    const double y = norms ? b.report.steps(i).grad_norm() : b.report.steps(i).loss();
    most = std::max(most, std::abs(x - y) / std::abs(y));
  }
  return most;
}

// A plan of 6 steps with two sequences to a microbatch.
TinyPlan Plan6(const std::string& mesh) { return {.steps = 6, .layers = 2, .batch = 8, .microbatch = 2, .mesh = mesh}; }

void ExpectLikeOneRank(const TinyPlan& plan, double tolerance) {
  TinyPlan one = plan;
  one.mesh = "pipe1";
  one.schedule = "1f1b";
  one.schedule_fields = one.plan_fields = "";
  one.recompute = false;
  const auto expected = Train(one);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto result = Train(plan);
  ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
  ASSERT_EQ(result->report.steps_size(), 6);
  EXPECT_LT(MostDifferent(*result, *expected, false), tolerance) << plan.Name();
  EXPECT_LT(MostDifferent(*result, *expected, true), 10 * tolerance) << plan.Name();
  // Clipping is active, or norms would not matter.
  if (plan.clip > 0) {
    EXPECT_GT(expected->report.steps(0).grad_norm(), plan.clip);
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

// What else a plan may say does not matter either.
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

// Grouped heads, rotations, root mean square norms, gated units; BERT's decoder, which is cut as the embedding is.
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

// What the layers of a model cannot be cut into is refused by name.
TEST(TensorParallelTest, WhatDoesNotDivideIsRefused) {
  struct Case {
    const char* family;
    const char* mesh;
    const char* message;
    const char* schedule = "1f1b";
    const char* fields = "";
  };
  for (const Case& c : {Case{"gpt2", "x4",
                             "2 heads cannot be cut over axis x of plan.mesh, which has size 4; nearest "
                             "valid: 2"},
                        {"gpt2", "z3",
                         "recipe.microbatch_sequences = 2 must be a multiple of the 3 ranks of mesh axis "
                         "z, which share a microbatch; nearest valid: 3"},
                        {"gpt2", "x2 pipe2", "mesh axes x, y and z must have size 1 with it, or use a static", "axonn"},
                        {"gpt2", "data2 pipe2", "plan.zero.stage must be 0 with it", "axonn", "zero { stage: 3 }"},
                        {"gpt2", "x2 pipe2",
                         "mesh axes x, y and z must have size 1 with it, or use a schedule that "
                         "flushes",
                         "pipedream"}}) {
    TinyPlan plan = Plan6(c.mesh);
    plan.family = c.family;
    plan.schedule = c.schedule;
    plan.plan_fields = c.fields;
    if (plan.schedule == "pipedream") {
      plan.clip = 0;
      plan.batch = 2;
    }
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_FALSE(program.ok()) << plan.Name();
    EXPECT_NE(program.status().message().find(c.message), absl::string_view::npos) << program.status();
  }
}

bool SameBits(const RunResult& a, const RunResult& b) {
  if (MostDifferent(a, b, false) != 0 || MostDifferent(a, b, true) != 0 || a.weights.size() != b.weights.size()) {
    return false;
  }
  for (size_t i = 0; i < a.weights.size(); ++i) {
    if (a.weights[i].bytes != b.weights[i].bytes) return false;
  }
  return true;
}

// Under exact accumulation nothing but x, y and z themselves decides about bits.
TEST(TensorParallelTest, ExactPlansOfOneShapeAgreeInAllBits) {
  TinyPlan plan = Plan6("x2 y2 z2");
  plan.exact = true;
  const auto expected = Train(plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* mesh : {"z2 y2 x2", "x2 y2 z2 data2", "x2 data2 y2 z2", "x2 y2 z2 pipe2"}) {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      plan.mesh = mesh;
      plan.schedule = schedule;
      const auto result = Train(plan);
      ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
      EXPECT_TRUE(SameBits(*result, *expected)) << plan.Name();
    }
  }
}

TEST(TensorParallelTest, ExactPlansDoNotDependOnZero) {
  TinyPlan plan = Plan6("data2");
  plan.exact = true;
  const auto expected = Train(plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  plan.plan_fields = "zero { stage: 3 }";
  for (const char* mesh : {"data2", "data4", "data2 pipe2"}) {
    plan.mesh = mesh;
    const auto result = Train(plan);
    ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
    EXPECT_TRUE(SameBits(*result, *expected)) << plan.Name();
  }
}

}  // namespace
}  // namespace weft
