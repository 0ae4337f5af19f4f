// One rank's run of a Program, as docs/program.md has it: streams with queues, actions with dependencies, steps on
// views that are resolved before the first of them runs. Nothing is allocated in a step.
//
// One thread does everything: it runs compute steps, posts transfers as soon as they are ready, and looks for finished
// ones between two steps; it sleeps when nothing can run. On an asynchronous device it enqueues them, up to two
// repetitions ahead (docs/devices.md).
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
  // Flip a bit of a weight of the rank, when so many steps are done and replicas are compared; `action` says nothing.
  bool flip = false;
  // Be stuck in the action, for ever or until this is set, instead of returning an error.
  bool stall = false;
  const std::atomic<bool>* stall_until = nullptr;
};

// What an optimizer step gave, read when the action that writes it was finished. The steps of one repetition of an
// asynchronous program (rule P14) are known together.
struct StepResult {
  int64_t step = 0;
  double loss = 0;
  double norm = 0;
  double learning_rate = 0;
  // Rule P11: what the gradients were those of the loss times, 0 = no loss scaling; and whether they were not finite,
  // so that the step changed nothing. Then `norm` is 0.
  double loss_scale = 0;
  bool skipped = false;
  // When the last action of its repetition was finished on this rank; and how many steps that took.
  int64_t end_ns = 0;
  int64_t steps_of_repetition = 1;
};

struct InterpreterOptions {
  const DataSource* data = nullptr;
  // Null: compute steps run whenever they are ready.
  ComputeSlots* slots = nullptr;
  // How long a rank may wait without any progress of its own, where `deadlines` says nothing else.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // Both or none. Of this rank and program.
  FlightRecorder* flight = nullptr;
  Deadlines* deadlines = nullptr;
  // Set when the run shall end after the current repetition, on whatever rank; null: never. Where it is given, the
  // ranks agree after each repetition whether to go on, when all have finished it.
  const std::atomic<bool>* stop = nullptr;
  // Keep events of the first so many repetitions, and of prologue and epilogue; 0 = none.
  int64_t trace_repetitions = 0;
  // Zero of the trace's clock.
  int64_t trace_epoch_ns = 0;
  std::optional<InjectedFailure> failure;
  // Called on the rank's thread whenever a repetition is finished, once for each of its steps. Of a post-validated
  // program (rule P15) when its norm is known too: that of the last one is after the epilogue.
  std::function<void(const StepResult&)> on_step;
  // Whether a loss or norm that is not finite ends the run (rule P11).
  bool check_finite = true;
};

class Interpreter {
 public:
  // `program` has been verified and outlives this, as do the others. The arena holds at least what the rank's template
  // asks for.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Create(const Program& program, Endpoint* endpoint,
                                                             Backend* backend, const Arena* arena,
                                                             const InterpreterOptions& options);
  ~Interpreter();

  // `first_step` is that of the RunBody to come.
  absl::Status RunPrologue(int64_t first_step = 0);
  // Runs `repetitions` repetitions, the first being optimizer step `first_step`, to their end on this rank. Returns how
  // many were run: fewer if the ranks agreed to stop.
  absl::StatusOr<int64_t> RunBody(int64_t first_step, int64_t repetitions);
  // `next_step` is the one after the last. Of a post-validated program (rule P15) it is run before anything reads the
  // weights, as often as that is, and the body may go on after it.
  absl::Status RunEpilogue(int64_t next_step = 0);
  // Asks all ranks whether one of them wants to stop. All call it, between two RunBody, if options.stop is set.
  absl::StatusOr<bool> AgreeToStop();

  // One per optimizer step of all RunBody calls so far.
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
