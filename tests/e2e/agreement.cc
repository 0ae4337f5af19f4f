#include "tests/e2e/agreement.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace weft {

Outcome Must(const absl::StatusOr<exec::RunResult>& result, const std::string& what) {
  EXPECT_TRUE(result.ok()) << what << ": " << result.status();
  return result.ok() ? OutcomeOf(*result) : Outcome();
}

TinyPlan OneCopy(TinyPlan plan) {
  std::string mesh = "pipe1";
  for (absl::string_view axis : absl::StrSplit(plan.mesh, ' ', absl::SkipEmpty())) {
    if (axis[0] != 'd' && axis[0] != 'p') absl::StrAppend(&mesh, " ", axis);
  }
  plan.mesh = mesh;
  plan.schedule = "1f1b";
  plan.schedule_fields = plan.plan_fields = "";
  return plan;
}

const Outcome& Outcomes::Get(const TinyPlan& plan) {
  auto [found, added] = outcomes_.try_emplace(absl::StrCat(plan.Name(), " layers ", plan.layers));
  if (added) {
    const auto outcome = TrainTiny(plan);
    EXPECT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    if (outcome.ok()) found->second = *outcome;
    EXPECT_FALSE(found->second.weights.empty());
  }
  return found->second;
}

void ExpectLikeOneRank(const TinyPlan& plan, Outcomes& references) {
  const auto outcome = TrainTiny(plan);
  ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  const Outcome& expected = references.Get(OneCopy(plan));
  ASSERT_FALSE(expected.norms.empty());
  if (plan.clip > 0) {
    EXPECT_GT(expected.norms[0], plan.clip);
  }
  if (plan.exact) {
    ExpectSame(*outcome, expected, plan.Name());
  } else {
    ExpectClose(*outcome, expected, plan.Name());
  }
}

void ExpectShardedLikeWhole(TinyPlan plan, const std::string& fields, double tolerance) {
  plan.clip = 0;
  const auto expected = TrainTiny(plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  plan.plan_fields += fields;
  auto outcome = TrainTiny(plan);
  ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  if (tolerance > 0) return ExpectClose(*outcome, *expected, plan.Name(), tolerance);
  ASSERT_EQ(outcome->norms.size(), expected->norms.size());
  for (size_t i = 0; i < expected->norms.size(); ++i) {
    EXPECT_NEAR(outcome->norms[i], expected->norms[i], 1e-9 * expected->norms[i]) << plan.Name() << " step " << i;
  }
  outcome->norms = expected->norms;
  ExpectSame(*outcome, *expected, plan.Name());
}

void ExpectCheckpointsGoRound(const std::string& name, const std::vector<TinyPlan>& plans) {
  const auto expected = TrainTiny(OneCopy(plans[0]));
  ASSERT_TRUE(expected.ok()) << expected.status();
  const size_t half = plans[0].steps / 2;
  for (size_t i = 0; i < plans.size(); ++i) {
    exec::RunOptions options;
    options.checkpoint.directory = absl::StrCat(::testing::TempDir(), "/round_", name, i);
    std::filesystem::remove_all(options.checkpoint.directory);
    for (const size_t which : {i, (i + 1) % plans.size()}) {
      const TinyPlan& plan = plans[which];
      options.steps = which == i ? static_cast<int>(half) : 0;
      options.resume = which != i;
      const auto outcome = TrainTiny(plan, options);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      if (which == i) continue;
      ASSERT_EQ(outcome->losses.size(), half);
      for (size_t s = 0; s < half; ++s) EXPECT_EQ(outcome->losses[s], expected->losses[half + s]) << s;
      EXPECT_TRUE(outcome->weights == expected->weights) << plan.Name() << " after " << plans[i].Name();
    }
  }
}

void ExpectLossesClose(const TinyPlan& plan, const std::vector<std::string>& meshes, double tolerance) {
  const Outcome expected = Must(Train(plan), plan.Name());
  ASSERT_FALSE(expected.losses.empty());
  for (const std::string& mesh : meshes) {
    TinyPlan other = plan;
    other.mesh = mesh;
    const Outcome outcome = Must(Train(other), mesh);
    ASSERT_EQ(outcome.losses.size(), expected.losses.size());
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], tolerance * expected.losses[i]) << mesh << " step " << i;
    }
  }
}

}  // namespace weft
