// One rank's run of a Program, as docs/program.md defines it: streams with queues, actions with dependencies, and steps
// on views that are resolved before the first step runs. Nothing is allocated in a step.
//
// One thread does everything. It runs compute steps, posts transfers as soon as they are ready, checks for finished
// transfers between two steps, and sleeps when nothing can run. On an asynchronous device it enqueues the steps, up to
// two repetitions ahead (docs/devices.md).
#ifndef WEFT_EXECUTOR_INTERPRETER_INTERPRETER_H_
#define WEFT_EXECUTOR_INTERPRETER_INTERPRETER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/data/data.h"
#include "executor/interface/backend.h"
#include "executor/interface/compute_slots.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/control.h"
#include "executor/interpreter/deadlines.h"
#include "executor/interpreter/flight_recorder.h"
#include "executor/program/arena.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

// For tests: makes a rank fail at an action of a repetition.
struct InjectedFailure {
  int rank = 0;
  int64_t repetition = 0;
  int32_t action = 0;
  // End the process as a crash would, instead of returning an error.
  bool kill = false;
  // Flip a bit of a weight of the rank just before replicas are compared, once `repetition` steps are done; `action` is
  // ignored.
  bool flip = false;
  // Hang in the action, for ever or until `stall_until` is set, instead of returning an error.
  bool stall = false;
  const std::atomic<bool>* stall_until = nullptr;
};

// The results of an optimizer step. They are read when the action that writes them is finished. The results of all
// steps in one repetition of an asynchronous program (rule P14) become known together.
struct StepResult {
  int64_t step = 0;
  double loss = 0;
  double norm = 0;
  double learning_rate = 0;
  // Rule P11: `loss_scale` is the factor by which the loss was multiplied for the gradients, 0 = no loss scaling.
  // `skipped` is true if the gradients were not finite, so that the step changed nothing; `norm` is then 0.
  double loss_scale = 0;
  bool skipped = false;
  // When the last action of the step's repetition was finished on this rank, and how many steps that repetition has.
  int64_t end_ns = 0;
  int64_t steps_of_repetition = 1;
};

struct InterpreterOptions {
  const DataSource* data = nullptr;
  // Null: compute steps run whenever they are ready.
  ComputeSlots* slots = nullptr;
  // How long a rank may wait without any progress of its own, unless `deadlines` sets another limit.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // The flight recorder and the deadlines of this rank's run of the program. Either both are set or neither.
  FlightRecorder* flight = nullptr;
  Deadlines* deadlines = nullptr;
  // Set, on any rank, when the run should end after the current repetition; null = never. If the pointer is given, the
  // ranks agree after each repetition whether to continue, once all have finished it.
  const std::atomic<bool>* stop = nullptr;
  // Number of first repetitions whose events are kept, together with the events of prologue and epilogue; 0 = none.
  int64_t trace_repetitions = 0;
  // Zero of the trace's clock.
  int64_t trace_epoch_ns = 0;
  std::optional<InjectedFailure> failure;
  // Called on the rank's thread whenever a repetition is finished, once for each of its steps. In a post-validated
  // program (rule P15) a step is reported when its norm is known too; for the last step that is after the epilogue.
  std::function<void(const StepResult&)> on_step;
  // If true, a loss or norm that is not finite ends the run (rule P11).
  bool check_finite = true;
};

class Interpreter {
 public:
  // `program` must have been verified. It and the objects pointed to must outlive the result. The arena must have at
  // least the size that the rank's template requires.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Create(const Program& program, Endpoint* endpoint,
                                                             Backend* backend, const Arena* arena,
                                                             const InterpreterOptions& options);
  ~Interpreter();

  // `first_step` is the first step of the RunBody that follows.
  absl::Status RunPrologue(int64_t first_step = 0);
  // Runs `repetitions` repetitions to their end on this rank; the first is optimizer step `first_step`. Returns how
  // many were run: fewer if the ranks agreed to stop.
  absl::StatusOr<int64_t> RunBody(int64_t first_step, int64_t repetitions);
  // `next_step` is the step after the last. In a post-validated program (rule P15) the epilogue runs each time before
  // something reads the weights, and the body may go on after it.
  absl::Status RunEpilogue(int64_t next_step = 0);
  // Asks all ranks whether one of them was asked to stop. If options.stop is set, all ranks call it between two calls
  // of RunBody.
  absl::StatusOr<bool> AgreeToStop();

  // One result per optimizer step of all RunBody calls so far.
  const std::vector<StepResult>& results() const;
  // The measured trace so far, if asked for.
  RankTrace TakeTrace() const;
  // Steps executed so far.
  int64_t steps_executed() const;

 private:
  class Impl;
  explicit Interpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_INTERPRETER_H_
