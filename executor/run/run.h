// A whole training run of a program: data, ranks, evaluation, checkpoints, report.
#ifndef WEFT_EXECUTOR_RUN_RUN_H_
#define WEFT_EXECUTOR_RUN_RUN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/data/data.h"
#include "executor/interface/backend.h"
#include "executor/interpreter/deadlines.h"
#include "executor/interpreter/interpreter.h"
#include "executor/job/told_elsewhere.h"
#include "executor/state/state.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

struct RunOptions {
  // The run ends when so many optimizer steps have been done, those before a resume among them; 0 = the recipe's. The
  // learning rate follows the recipe's number of steps in any case.
  int64_t steps = 0;
  // What runs the kernels; null = cpu. The ranks of this process share the device that is opened with `device`.
  const BackendEntry* backend = nullptr;
  DeviceOptions device;
  // BackendOptions.tuning.
  std::string tuning = "off";
  int threads_per_rank = 1;
  // Compute slots of this process; 0 = cores / threads_per_rank, at least 1. Ranks in processes of their own (mpi) take
  // none.
  int slots = 0;
  // Of an action: it may take so long, or Deadlines::kFactor times what was predicted where that is longer.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // Of this program; null: none.
  const PredictedTimes* predicted = nullptr;
  // Where a run that fails writes what each rank did last (docs/faults.md), the rank's number before the extension;
  // empty = nowhere.
  std::string fault_report;
  // A run has failed and a rank of this process is stuck: on another thread, `told` if this process is to say why.
  std::function<void(const absl::Status& reason, bool told)> on_stuck;
  // After every so many steps compare the replicas of all weights; 0 = never.
  int64_t check_replicas = 0;

  // Null: no evaluation. Otherwise after every `eval_every` steps, over at most `eval_batches` global batches.
  const DataSource* eval_data = nullptr;
  int64_t eval_every = 0;
  int64_t eval_batches = 16;

  // Empty directory: no checkpoints. With one, the state is saved every `checkpoint_every` steps (0 = only at the end)
  // and when the run ends, early or not.
  CheckpointOptions checkpoint;
  int64_t checkpoint_every = 0;
  // Continue from the directory's checkpoint; from the beginning if it has none. Without it a directory that has one is
  // refused.
  bool resume = false;
  // Not from the newest, but from that after so many steps; -1 = the newest.
  int64_t resume_step = -1;

  // Safetensors file with the initial weights; empty = random by the recipe's seed. Not with `resume`.
  std::string weights;
  // Where to write the final weights; empty = nowhere.
  std::string save_weights;
  // Also return them (RunResult::weights).
  bool collect_weights = false;

  // Repetitions to trace; 0 = none.
  int64_t trace_repetitions = 0;
  // When it becomes true the ranks finish the step that they are in, save, and end; one that waits in vain gives up
  // (watchdog.h).
  const std::atomic<bool>* stop = nullptr;
  // The ranks are about to meet (false), and have met (true): from then on `stop` means that.
  std::function<void(bool met)> on_meeting;
  // Called on rank 0 as steps end; after an evaluation once more for the same step, with eval_loss set.
  std::function<void(const RunStep&)> on_step;
  // One line that says what was done without being asked for in detail, e.g. where the run was resumed.
  std::function<void(const std::string&)> on_note;
  // One line that says what is not as asked for: nothing to resume.
  std::function<void(const std::string&)> on_warning;

  // For tests.
  std::optional<InjectedFailure> failure;
  bool verify_completeness = true;
};

// On rank 0 (in process: always) all of it; on other ranks only the report's fixed part.
struct RunResult {
  RunReport report;
  std::optional<Trace> trace;
  // By logical tensor, if asked for.
  std::vector<TensorData> weights;
  // Of writing RunOptions::save_weights: the run itself is good without that file.
  absl::Status save_status;
  // Steps done at the start (a resume) and at the end.
  int64_t first_step = 0;
  int64_t last_step = 0;
  // Ended early, because it was asked to.
  bool stopped = false;
  // Seconds that saving checkpoints took.
  double checkpoint_seconds = 0;
};

// Runs all ranks of this process over a transport ("inproc" and "loopback": all of the program's, one thread each;
// "mpi": one). Where the backend's device works on its own and the transport moves memory of the host only, messages go
// by pinned memory (executor/transports/staged.h).
// `program` is verified first. The error names the rank and the action that failed first; where another process reports
// that, ReportedElsewhere(status) holds.
absl::StatusOr<RunResult> RunProgram(const Program& program, const DataSource& data, absl::string_view transport,
                                     const RunOptions& options);
absl::StatusOr<RunResult> RunInProcess(const Program& program, const DataSource& data, const RunOptions& options);

// Whether the ranks had met when the error came, so that all of them know it.
bool FailedInRun(const absl::Status& status);
// Whether it came after the first step had begun: then RunOptions::fault_report has been written.
bool FailedInStep(const absl::Status& status);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_RUN_H_
