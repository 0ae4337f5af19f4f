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
#include "executor/job/reported_remotely.h"
#include "executor/state/state.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

struct RunOptions {
  // Number of optimizer steps after which the run ends, including those before a resume; 0 = the recipe's number. The
  // learning rate follows the recipe's number of steps in any case.
  int64_t steps = 0;
  // The backend that runs the kernels; null = cpu. The ranks of this process share the device that is opened with
  // `device`.
  const BackendEntry* backend = nullptr;
  DeviceOptions device;
  // See BackendOptions.tuning.
  std::string tuning = "off";
  int threads_per_rank = 1;
  // Compute slots of this process; 0 = cores / threads_per_rank, at least 1. Ranks in processes of their own
  // (transports mpi, nccl and tcp) use none.
  int slots = 0;
  // Time limit of an action. If Deadlines::kFactor times its predicted time is longer, that is the limit.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // Predicted times of this program; null = none.
  const PredictedTimes* predicted = nullptr;
  // The file into which a failed run writes what each rank did last (docs/faults.md), with the rank's number before the
  // extension; empty = none.
  std::string fault_report;
  // Called on another thread if a run has failed and a rank of this process is stuck. `told` is true if this process
  // should report the reason.
  std::function<void(const absl::Status& reason, bool told)> on_stuck;
  // Compare the replicas of all weights every `check_replicas` steps; 0 = never.
  int64_t check_replicas = 0;

  // Null: no evaluation. Otherwise the run evaluates after every `eval_every` steps, over at most `eval_batches` global
  // batches.
  const DataSource* eval_data = nullptr;
  int64_t eval_every = 0;
  int64_t eval_batches = 16;

  // If `checkpoint.directory` is empty, nothing is saved. Otherwise the run saves the state every `checkpoint_every`
  // steps (0 = only at the end) and when it ends, early or not.
  CheckpointOptions checkpoint;
  int64_t checkpoint_every = 0;
  // Continue from the directory's checkpoint, or from the beginning if it has none. Without `resume`, a directory that
  // has a checkpoint is refused.
  bool resume = false;
  // Continue from the checkpoint after this many steps; -1 = the newest checkpoint.
  int64_t resume_step = -1;

  // Safetensors file with the initial weights; empty = random by the recipe's seed. Not with `resume`.
  std::string weights;
  // Where to write the final weights; empty = nowhere.
  std::string save_weights;
  // Also return the final weights (RunResult::weights).
  bool collect_weights = false;

  // Repetitions to trace; 0 = none.
  int64_t trace_repetitions = 0;
  // If it becomes true, the ranks finish their current step, save, and end. A rank that waits for a partner in vain
  // gives up (watchdog.h).
  const std::atomic<bool>* stop = nullptr;
  // Called when the ranks are about to meet (false) and when they have met (true). `stop` works as described above only
  // after they have met.
  std::function<void(bool met)> on_meeting;
  // Called on rank 0 as steps end. After an evaluation it is called once more for the same step, with eval_loss set.
  std::function<void(const RunStep&)> on_step;
  // Receives one line about something that the run did but the user did not ask for in detail, e.g. which checkpoint it
  // resumed from.
  std::function<void(const std::string&)> on_note;
  // Receives one line about something that differs from what the user asked for, e.g. nothing to resume.
  std::function<void(const std::string&)> on_warning;

  // For tests.
  std::optional<InjectedFailure> failure;
  bool verify_completeness = true;
};

// Complete on rank 0, and so always if one process runs all ranks. On other ranks the report has no steps, and `trace`,
// `weights` and `save_status` are not set.
struct RunResult {
  RunReport report;
  std::optional<Trace> trace;
  // The weights of every logical tensor, if the options ask for them; otherwise empty.
  std::vector<TensorData> weights;
  // Status of writing RunOptions::save_weights. The run itself succeeds even if that file cannot be written.
  absl::Status save_status;
  // Number of steps done at the start (after a resume) and at the end.
  int64_t first_step = 0;
  int64_t last_step = 0;
  // True if `RunOptions::stop` ended the run early.
  bool stopped = false;
  // Seconds that saving checkpoints took.
  double checkpoint_seconds = 0;
};

// Runs all ranks of this process over a transport. With "inproc" and "loopback" these are all ranks of the program, one
// thread each; with other transports it is one rank. If the backend's device is asynchronous and the transport moves
// host memory only, messages are copied through pinned memory (executor/transports/staged.h). `program` is verified
// first. The error names the rank and the action that failed first. If another process reports that error,
// ReportedRemotely(status) is true.
absl::StatusOr<RunResult> RunProgram(const Program& program, const DataSource& data, absl::string_view transport,
                                     const RunOptions& options);
absl::StatusOr<RunResult> RunInProcess(const Program& program, const DataSource& data, const RunOptions& options);

// True if the error came after the ranks had met, so that all of them receive it.
bool FailedInRun(const absl::Status& status);
// True if the error came after the first step had begun; RunOptions::fault_report has then been written.
bool FailedInStep(const absl::Status& status);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_RUN_H_
