// N plans, one loss: the same model, data, recipe and seed give the same losses, gradient norms and weights under every
// plan. By default the test runs a sample of the plans; with --full all of them.
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/full.h"

namespace weft {
namespace {

// Losses must fall and clipping must be active, or the comparisons would prove little.
void ExpectTrains(const Outcome& outcome) {
  ASSERT_EQ(outcome.losses.size(), 20u);
  EXPECT_NEAR(outcome.losses.front(), std::log(256.0), 0.3);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 1);
  EXPECT_GT(outcome.norms.front(), 0.5);
}

TEST(OneLossTest, PipelineScheduleRecomputeAndThreadsDoNotMatter) {
  for (const bool exact : {false, true}) {
    const auto reference = Train({.pipe = 1, .schedule = "gpipe", .exact = exact});
    ASSERT_TRUE(reference.ok()) << reference.status();
    const Outcome expected = OutcomeOf(*reference);
    ExpectTrains(expected);
    int count = 0;
    for (int pipe : {1, 2, 4}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        for (bool recompute : {false, true}) {
          for (int threads : {1, 2, 3}) {
            const TinyPlan plan{.pipe = pipe, .schedule = schedule, .recompute = recompute, .exact = exact};
            // The sample has every plan with in-order accumulation and half of the exact plans, with varying thread
            // counts.
            ++count;
            if (!full && (threads != 1 + (count / 3) % 3 || (exact && recompute))) continue;
            exec::RunOptions options;
            options.threads_per_rank = threads;
            const auto result = Train(plan, options);
            ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
            ExpectSame(OutcomeOf(*result), expected, absl::StrCat(plan.Name(), ", ", threads, " threads"));
          }
        }
      }
    }
  }
}

TEST(OneLossTest, ReplicasDoNotMatterUnderExactAccumulation) {
  const auto reference = Train({.exact = true});
  ASSERT_TRUE(reference.ok()) << reference.status();
  const Outcome expected = OutcomeOf(*reference);
  for (int data : {2, 4}) {
    for (int pipe : {1, 2, 4}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        if (!full && (pipe == 4 || (std::string(schedule) == "gpipe") != (data == 2))) continue;
        const TinyPlan plan{.pipe = pipe, .data = data, .schedule = schedule, .exact = true};
        const auto result = Train(plan);
        ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
        ExpectSame(OutcomeOf(*result), expected, plan.Name());
      }
    }
  }
}

TEST(OneLossTest, ReplicasAgreeClosely) {
  const auto reference = Train(TinyPlan{});
  ASSERT_TRUE(reference.ok()) << reference.status();
  const Outcome expected = OutcomeOf(*reference);
  for (int data : {2, 4}) {
    for (int pipe : {1, 2}) {
      if (!full && pipe == data) continue;
      const TinyPlan plan{.pipe = pipe, .data = data};
      const auto result = Train(plan);
      ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
      const Outcome outcome = OutcomeOf(*result);
      ASSERT_EQ(outcome.losses.size(), expected.losses.size());
      for (size_t i = 0; i < expected.losses.size(); ++i) {
        EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << plan.Name() << " step " << i;
      }
    }
  }
}

TEST(OneLossTest, MixedPrecisionDoesNotDependOnThePipeline) {
  const auto reference = Train({.bf16 = true});
  ASSERT_TRUE(reference.ok()) << reference.status();
  const Outcome expected = OutcomeOf(*reference);
  ExpectTrains(expected);
  for (int pipe : {2, 4}) {
    if (!full && pipe == 4) continue;
    const TinyPlan plan{.pipe = pipe, .schedule = "gpipe", .recompute = pipe == 2, .bf16 = true};
    const auto result = Train(plan);
    ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
    ExpectSame(OutcomeOf(*result), expected, plan.Name());
  }
}

TEST(OneLossTest, TwentyStepsAreTenAndAResumeAndTen) {
  const std::vector<TinyPlan> plans = {{.pipe = 1}, {.pipe = 2, .schedule = "gpipe"}, {.pipe = 4, .recompute = true}};
  const auto whole = Train(plans[0]);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const Outcome expected = OutcomeOf(*whole);
  const std::string directory = ::testing::TempDir() + "/resume";
  for (size_t from = 0; from < plans.size(); ++from) {
    for (size_t to = 0; to < plans.size(); ++to) {
      if (!full && (from + 1) % plans.size() != to && from + to != 2) continue;
      SCOPED_TRACE(plans[from].Name() + " -> " + plans[to].Name());
      std::filesystem::remove_all(directory);
      exec::RunOptions options;
      options.checkpoint.directory = directory;
      options.checkpoint_every = 5;
      options.steps = 10;
      const auto first = Train(plans[from], options);
      ASSERT_TRUE(first.ok()) << first.status();
      EXPECT_EQ(first->last_step, 10);
      // A second run must not overwrite the checkpoints of the first by accident.
      EXPECT_EQ(Train(plans[to], options).status().code(), absl::StatusCode::kFailedPrecondition);
      options.steps = 0;
      options.resume = true;
      const auto second = Train(plans[to], options);
      ASSERT_TRUE(second.ok()) << second.status();
      EXPECT_EQ(second->first_step, 10);
      Outcome joined = OutcomeOf(*first);
      const Outcome rest = OutcomeOf(*second);
      joined.losses.insert(joined.losses.end(), rest.losses.begin(), rest.losses.end());
      joined.norms.insert(joined.norms.end(), rest.norms.begin(), rest.norms.end());
      joined.weights = rest.weights;
      ExpectSame(joined, expected, "resumed");
    }
  }
}

// Runs the plans in turn, each resuming from the one before, until `steps` iterations are done in all.
absl::StatusOr<Outcome> TrainInParts(const std::vector<TinyPlan>& plans, int64_t steps) {
  const std::string directory = ::testing::TempDir() + "/parts";
  std::filesystem::remove_all(directory);
  Outcome joined;
  for (size_t i = 0; i < plans.size(); ++i) {
    exec::RunOptions options;
    options.checkpoint.directory = directory;
    options.resume = i > 0;
    options.steps = steps * static_cast<int64_t>(i + 1) / static_cast<int64_t>(plans.size());
    const absl::StatusOr<exec::RunResult> result = Train(plans[i], options);
    if (!result.ok()) return result.status();
    if (result->first_step != steps * static_cast<int64_t>(i) / static_cast<int64_t>(plans.size())) {
      return absl::InternalError(absl::StrCat(plans[i].Name(), " began at step ", result->first_step));
    }
    Outcome part = OutcomeOf(*result);
    joined.losses.insert(joined.losses.end(), part.losses.begin(), part.losses.end());
    joined.norms.insert(joined.norms.end(), part.norms.begin(), part.norms.end());
    joined.weights = std::move(part.weights);
  }
  return joined;
}

TEST(OneLossTest, AResumeMayChangeTheReplicasUnderExactAccumulation) {
  const auto whole = Train({.exact = true});
  ASSERT_TRUE(whole.ok()) << whole.status();
  auto plan = [](int data, int pipe) { return TinyPlan{.pipe = pipe, .data = data, .exact = true}; };
  std::vector<std::vector<TinyPlan>> chains = {{plan(1, 1), plan(2, 2), plan(4, 1)}};
  if (full) {
    chains.push_back({plan(4, 2), plan(2, 1), plan(1, 4)});
    chains.push_back({plan(2, 4), plan(1, 1)});
    chains.push_back({plan(1, 2), plan(4, 4), plan(1, 2), plan(2, 2)});
  }
  for (const auto& chain : chains) {
    const auto joined = TrainInParts(chain, 20);
    ASSERT_TRUE(joined.ok()) << joined.status();
    ExpectSame(*joined, OutcomeOf(*whole), absl::StrCat("from ", chain[0].Name(), " to ", chain.back().Name()));
  }
}

// A checkpoint of bf16 weights holds their master copies; without them the next steps would differ.
TEST(OneLossTest, AResumeKeepsMasterCopies) {
  auto plan = [](int pipe, int data, bool exact) {
    return TinyPlan{.pipe = pipe, .data = data, .exact = exact, .bf16 = true};
  };
  for (const bool exact : {false, true}) {
    if (!full && exact) continue;
    const auto whole = Train(plan(1, 1, exact));
    ASSERT_TRUE(whole.ok()) << whole.status();
    std::vector<std::vector<TinyPlan>> chains = {{plan(2, 1, exact), plan(1, 1, exact)}};
    if (full) chains.push_back({plan(1, 1, exact), plan(4, 1, exact), plan(2, 1, exact)});
    if (exact) chains.push_back({plan(1, 1, true), plan(2, 2, true), plan(1, 4, true)});
    for (const auto& chain : chains) {
      const auto joined = TrainInParts(chain, 20);
      ASSERT_TRUE(joined.ok()) << joined.status();
      ExpectSame(*joined, OutcomeOf(*whole), absl::StrCat("from ", chain[0].Name(), " to ", chain.back().Name()));
    }
  }
}

TEST(OneLossTest, TheStepInProgressIsTheLastWhenAskedToStop) {
  for (const TinyPlan& plan : {TinyPlan{}, TinyPlan{.pipe = 4}, TinyPlan{.pipe = 2, .data = 2}}) {
    if (!full && plan.pipe == 4) continue;
    SCOPED_TRACE(plan.Name());
    const std::string directory = ::testing::TempDir() + "/stop";
    std::filesystem::remove_all(directory);
    std::atomic<bool> stop{false};
    exec::RunOptions options;
    options.stop = &stop;
    options.checkpoint.directory = directory;
    options.on_step = [&](const RunStep& step) { stop = stop || step.step() == 6; };
    const auto result = Train(plan, options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->stopped);
    EXPECT_EQ(result->last_step, 7);
    EXPECT_EQ(result->report.steps_size(), 7);
    EXPECT_EQ(**exec::FindCheckpoint(directory), directory + "/step-00000007");
  }
}

TEST(OneLossTest, AResumeNotesOtherDataAndAnotherNumberOfSteps) {
  const std::string directory = ::testing::TempDir() + "/notes", other = ::testing::TempDir() + "/other.txt";
  std::filesystem::remove_all(directory);
  // A text of the same length with one byte changed.
  std::string text = *ReadFile(TinyTextPath());
  text[100] = text[100] == 'x' ? 'y' : 'x';
  ASSERT_TRUE(WriteFileAtomic(other, text).ok());
  auto notes_of = [&](const std::string& path, int recipe_steps, int64_t steps) {
    std::vector<std::string> notes;
    const auto program = CompileTiny({.steps = recipe_steps});
    const auto data = OpenTinyText(path, *program);
    exec::RunOptions options;
    options.checkpoint.directory = directory;
    options.resume = true;
    options.steps = steps;
    options.on_note = [&](const std::string& note) { notes.push_back(note); };
    options.on_warning = options.on_note;
    const auto result = exec::RunInProcess(*program, **data, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return notes;
  };
  ASSERT_EQ(notes_of(TinyTextPath(), 20, 1).size(), 1u);
  ASSERT_EQ(notes_of(TinyTextPath(), 20, 2).size(), 1u);
  const std::vector<std::string> changed = notes_of(other, 30, 3);
  ASSERT_EQ(changed.size(), 3u);
  EXPECT_NE(changed[1].find("the data differs from the data of the checkpoint"), std::string::npos) << changed[1];
  EXPECT_NE(changed[2].find("recipe.steps is 30, but the checkpoint has 20"), std::string::npos) << changed[2];
}

TEST(OneLossTest, EvaluationChangesNothing) {
  const TinyPlan plan{.pipe = 2, .data = 2, .exact = true};
  const auto program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto data = *OpenTinyText(TinyTextPath(), *program);
  exec::RunOptions options;
  options.collect_weights = true;
  const auto plain = exec::RunInProcess(*program, *data, options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  options.eval_data = data.get();
  options.eval_every = 5;
  options.eval_batches = 3;
  int evaluations = 0;
  options.on_step = [&](const RunStep& step) { evaluations += step.has_eval_loss(); };
  const auto evaluated = exec::RunInProcess(*program, *data, options);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  ExpectSame(OutcomeOf(*evaluated), OutcomeOf(*plain), "with evaluation");
  EXPECT_EQ(evaluations, 4);
  const RunReport& report = evaluated->report;
  EXPECT_FALSE(report.steps(3).has_eval_loss());
  EXPECT_LT(report.steps(19).eval_loss(), report.steps(4).eval_loss());
  // Evaluation has no dropout and uses similar text, so its loss is close to the training loss.
  EXPECT_NEAR(report.steps(19).eval_loss(), report.steps(19).loss(), 0.7);
}

}  // namespace
}  // namespace weft
