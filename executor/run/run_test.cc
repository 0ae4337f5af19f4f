// Tests a whole run of a small program of two stages on two ranks: what it refuses before ranks meet, what it reports,
// that it continues from a checkpoint as if it had never ended, and what it leaves behind.
#include "executor/run/run.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "executor/state/safetensors.h"
#include "executor/testing/test_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/testing/schedule_program.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program TwoRanks() {
  Program program = ScheduleProgram({.order = {"F0.0 F1.0 F0.1 F1.1 B1.0 B0.0 B1.1 B0.1", "F2.0 B2.0 F2.1 B2.1"},
                                     .placement = {{0, 0, 1}},
                                     .lane = {0, 0}});
  program.set_name("two ranks");
  program.mutable_recipe()->set_seed(7);
  program.mutable_recipe()->set_steps(3);
  program.mutable_recipe()->mutable_lr()->set_peak(0.5);
  for (LogicalTensor& tensor : *program.mutable_tensors()) tensor.set_init_normal(0.7);
  return program;
}

RunOptions Options() {
  RunOptions options;
  options.timeout = std::chrono::seconds(20);
  return options;
}

absl::StatusOr<RunResult> Train(const RunOptions& options, const Program& program = TwoRanks(),
                                absl::string_view transport = "inproc") {
  return RunProgram(program, TestData(program.vocabulary()), transport, options);
}

std::string Refusal(const RunOptions& options, const Program& program = TwoRanks(),
                    absl::string_view transport = "inproc") {
  RunOptions asked = options;
  bool met = false;
  asked.on_meeting = [&](bool) { met = true; };
  const absl::StatusOr<RunResult> result = Train(asked, program, transport);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(met) << "ranks were to meet";
  EXPECT_FALSE(FailedInRun(result.status()));
  return std::string(result.status().message());
}

// Returns the path of a folder that does not exist yet.
std::string Folder(const std::string& name) {
  const std::string path = testing::TempDir() + "/run_test_" + name;
  std::filesystem::remove_all(path);
  return path;
}

std::vector<std::vector<std::byte>> Weights(const RunResult& result) {
  std::vector<std::vector<std::byte>> out;
  for (const TensorData& tensor : result.weights) out.push_back(tensor.bytes);
  return out;
}

TEST(Run, RefusesBeforeRanksMeet) {
  RunOptions options = Options();
  options.threads_per_rank = 0;
  EXPECT_EQ(Refusal(options), "threads per rank = 0 must be from 1 to 256");
  options = Options();
  const TestData data(4);
  options.eval_data = &data;
  EXPECT_THAT(Refusal(options), HasSubstr("'two ranks' has no evaluation program"));
  options = Options();
  options.resume = true;
  EXPECT_EQ(Refusal(options), "--resume needs --checkpoint DIR");
  options.checkpoint.directory = Folder("weights");
  options.weights = "w.safetensors";
  EXPECT_THAT(Refusal(options), HasSubstr("a run starts from a weights file or from its checkpoint"));
  options = Options();
  options.weights = testing::TempDir() + "/missing.safetensors";
  EXPECT_THAT(Refusal(options), HasSubstr("--weights: "));
  Program large = TwoRanks();
  large.set_does_not_fit(true);
  EXPECT_THAT(Refusal(Options(), large), HasSubstr("can be simulated but not run"));
  EXPECT_THAT(Refusal(Options(), TwoRanks(), "pigeons"), HasSubstr("no transport 'pigeons'"));
}

// This is known before the ranks meet, so nothing is printed first.
TEST(Run, NcclNeedsGpus) {
  EXPECT_EQ(Refusal(Options(), TwoRanks(), "nccl"),
            "transport 'nccl' moves memory of GPUs, but the backend's device is 'host'; allowed transports: inproc, "
            "loopback, mpi, tcp; or use --backend=cuda");
}

// The program is refused before any rank is made and before any line is printed.
TEST(Run, SwitchesNeedATransportThatAsksThem) {
  Program program = TwoRanks();
  for (Template& t : *program.mutable_templates()) {
    for (Action& action : *t.mutable_body()) {
      if (!action.algorithm().empty()) action.set_algorithm("switch");
    }
  }
  EXPECT_THAT(Refusal(Options(), program),
              HasSubstr("with transport 'inproc': collective 'switch' is done by switches"));
}

TEST(Run, ALatestThatIsGoneIsSaid) {
  RunOptions options = Options();
  options.checkpoint.directory = Folder("latest_gone");
  options.checkpoint_every = 1;
  ASSERT_TRUE(Train(options).ok());
  std::filesystem::remove_all(options.checkpoint.directory + "/step-00000003");
  options.resume = true;
  std::vector<std::string> notes;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  const absl::StatusOr<RunResult> result = Train(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->first_step, 2);
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("latest names step-00000003, which is not there")));
  // If the user gives the number of a checkpoint, a wrong `latest` does not matter and is not noted.
  std::filesystem::remove_all(options.checkpoint.directory + "/step-00000003");
  options.resume_step = 2;
  notes.clear();
  ASSERT_TRUE(Train(options).ok());
  EXPECT_THAT(notes, ::testing::Not(::testing::Contains(HasSubstr("latest names"))));
}

TEST(Run, ATraceHasALimit) {
  RunOptions options = Options();
  options.steps = options.trace_repetitions = INT64_MAX / 2;
  const std::string refusal = Refusal(options);
  EXPECT_THAT(refusal, HasSubstr("do not fit into a trace, which holds at most 16777216; nearest valid: "));
  // The refusal names the largest number that is allowed. Only the steps that the run has are counted, so tracing more
  // steps than a short run has is allowed.
  const int64_t most = std::stoll(refusal.substr(refusal.rfind(' ') + 1));
  EXPECT_GT(most, 1000);
  options.steps = 2;
  EXPECT_TRUE(Train(options).ok());
}

TEST(Run, ReportsItsStepsInOrder) {
  RunOptions options = Options();
  std::vector<bool> meetings;
  std::vector<int64_t> steps;
  options.on_meeting = [&](bool met) { meetings.push_back(met); };
  options.on_step = [&](const RunStep& step) { steps.push_back(step.step()); };
  options.trace_repetitions = 2;
  const Program program = TwoRanks();
  const absl::StatusOr<RunResult> result = Train(options, program);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(meetings, ElementsAre(false, true));
  // The recipe sets the number of steps.
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_THAT(steps, ElementsAre(steps[0], steps[0] + 1, steps[0] + 2));
  ASSERT_EQ(result->report.steps_size(), 3);
  EXPECT_EQ(result->first_step, 0);
  EXPECT_EQ(result->last_step, 3);
  EXPECT_FALSE(result->stopped);
  EXPECT_EQ(result->report.program(), "two ranks");
  EXPECT_EQ(result->report.backend(), "cpu");
  EXPECT_EQ(result->report.transport(), "inproc");
  int64_t largest = 0;
  for (const Template& t : program.templates()) largest = std::max(largest, t.device_arena_bytes());
  EXPECT_EQ(result->report.planned_bytes(), largest);
  double seconds = 0, tokens = 0;
  for (const RunStep& step : result->report.steps()) {
    EXPECT_EQ(step.tokens(), result->report.steps(0).tokens());
    seconds += step.seconds();
    tokens += step.tokens();
  }
  EXPECT_GT(tokens, 0);
  EXPECT_DOUBLE_EQ(result->report.tokens_per_second(), tokens / seconds);
  ASSERT_TRUE(result->trace.has_value());
  EXPECT_EQ(result->trace->ranks_size(), 2);
  EXPECT_THAT(result->weights, IsEmpty());
}

TEST(Run, GoesOnFromACheckpointAsIfItHadNotEnded) {
  RunOptions options = Options();
  options.steps = 6;
  options.collect_weights = true;
  const absl::StatusOr<RunResult> whole = Train(options);
  ASSERT_TRUE(whole.ok()) << whole.status();

  options.checkpoint.directory = Folder("resume");
  options.checkpoint.keep = 10;
  options.checkpoint_every = 2;
  options.steps = 4;
  ASSERT_TRUE(Train(options).ok());
  options.steps = 6;
  EXPECT_THAT(Refusal(options), HasSubstr("is a checkpoint of an earlier run; add --resume to continue it"));
  options.resume = true;
  for (const int64_t from : {int64_t{-1}, int64_t{2}}) {
    // A run that resumes from the middle checkpoint repeats the newest steps.
    options.resume_step = from;
    std::vector<std::string> notes;
    options.on_note = [&](const std::string& note) { notes.push_back(note); };
    const absl::StatusOr<RunResult> rest = Train(options);
    ASSERT_TRUE(rest.ok()) << rest.status();
    const int64_t first = from < 0 ? 4 : from;
    EXPECT_EQ(rest->first_step, first);
    EXPECT_EQ(rest->last_step, 6);
    ASSERT_FALSE(notes.empty());
    EXPECT_THAT(notes[0], HasSubstr("resuming after step " + std::to_string(first) + " from "));
    EXPECT_EQ(Weights(*rest), Weights(*whole));
    ASSERT_EQ(rest->report.steps_size(), 6 - first);
    for (int i = 0; i < rest->report.steps_size(); ++i) {
      EXPECT_EQ(rest->report.steps(i).loss(), whole->report.steps(static_cast<int>(first) + i).loss());
    }
  }
}

TEST(Run, NothingToResumeIsSaid) {
  RunOptions options = Options();
  options.checkpoint.directory = Folder("fresh");
  options.resume = true;
  std::vector<std::string> warnings;
  options.on_warning = [&](const std::string& warning) { warnings.push_back(warning); };
  const absl::StatusOr<RunResult> result = Train(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(warnings, ElementsAre(options.checkpoint.directory + " has no checkpoint: starting at step 0"));
  EXPECT_EQ(result->first_step, 0);
}

TEST(Run, StopsAfterTheStepThatItIsIn) {
  RunOptions options = Options();
  options.steps = 1'000'000;
  std::atomic<bool> stop(false);
  options.stop = &stop;
  int done = 0;
  options.on_step = [&](const RunStep&) { stop = ++done >= 2; };
  options.checkpoint.directory = Folder("stopped");
  const absl::StatusOr<RunResult> result = Train(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->stopped);
  EXPECT_GE(result->last_step, 2);
  EXPECT_LT(result->last_step, 1'000'000);
  // The checkpoint holds every step that was done.
  options.resume = true;
  options.steps = result->last_step;
  options.stop = nullptr;
  const absl::StatusOr<RunResult> again = Train(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->first_step, result->last_step);
  EXPECT_EQ(again->report.steps_size(), 0);
}

TEST(Run, SavedWeightsAreThoseOfTheRun) {
  RunOptions options = Options();
  options.collect_weights = true;
  const std::string path = Folder("saved") + ".safetensors";
  std::filesystem::remove(path);
  options.save_weights = path;
  const absl::StatusOr<RunResult> result = Train(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->save_status, absl::OkStatus());
  const auto reader = SafetensorsReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const Program program = TwoRanks();
  ASSERT_EQ(static_cast<int>((*reader)->entries().size()), program.tensors_size());
  // A run that begins with these weights has another first loss than the run that saved them.
  RunOptions from = Options();
  from.weights = path;
  from.steps = 1;
  const absl::StatusOr<RunResult> next = Train(from);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE(next->report.steps(0).loss(), result->report.steps(0).loss());
  // If the file cannot be written, the run still succeeds.
  options.save_weights = testing::TempDir() + "/no such folder/w.safetensors";
  const absl::StatusOr<RunResult> unsaved = Train(options);
  ASSERT_TRUE(unsaved.ok()) << unsaved.status();
  EXPECT_FALSE(unsaved->save_status.ok());
  EXPECT_EQ(Weights(*unsaved), Weights(*result));
}

TEST(Run, AFailureInAStepIsOneOfTheRun) {
  RunOptions options = Options();
  const Program program = TwoRanks();
  InjectedFailure failure;
  failure.rank = 1;
  failure.repetition = 1;
  failure.action = program.templates(1).body(0).id();
  options.failure = failure;
  const absl::StatusOr<RunResult> result = Train(options, program);
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(FailedInRun(result.status()));
  EXPECT_TRUE(FailedInStep(result.status()));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rank 1"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("injected failure"));
}

}  // namespace
}  // namespace weft::exec
