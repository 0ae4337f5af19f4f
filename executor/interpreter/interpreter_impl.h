// The interpreter of one rank's program. Internal to interpreter*.cc.
#ifndef WEFT_EXECUTOR_INTERPRETER_INTERPRETER_IMPL_H_
#define WEFT_EXECUTOR_INTERPRETER_INTERPRETER_IMPL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/device_run.h"
#include "executor/interpreter/event_recorder.h"
#include "executor/interpreter/interpreter.h"
#include "executor/interpreter/posted_transfers.h"
#include "executor/interpreter/repetition_votes.h"
#include "executor/interpreter/step_results.h"
#include "executor/interpreter/stream_heads.h"
#include "executor/program/prepared_program.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

class Interpreter::Impl {
 public:
  Impl(const Program& program, Endpoint* endpoint, Backend* backend, const InterpreterOptions& options,
       std::unique_ptr<PreparedProgram> prepared)
      : program_(program),
        endpoint_(*endpoint),
        backend_(*backend),
        options_(options),
        prepared_(std::move(prepared)),
        votes_(*endpoint, options.stop, program.post_validation() ? 2 : 1),
        results_(program, *prepared_, endpoint->rank(), options.check_finite, options.on_step),
        streams_(*prepared_),
        transfers_(*prepared_, *endpoint) {}

  // Called before anything runs.
  absl::Status Prepare(ComputeDevice& device);

  // Runs `count` more repetitions of a list, to their end.
  absl::StatusOr<int64_t> RunList(ActionList list, int64_t first_step, int64_t count);

  // Asks all ranks whether to stop, and waits for the answer.
  absl::StatusOr<bool> VoteNow();

  const Program& program() const { return program_; }
  Endpoint& endpoint() { return endpoint_; }
  const InterpreterOptions& options() const { return options_; }
  const std::vector<StepResult>& results() const { return results_.all(); }
  int64_t steps_executed() const { return steps_executed_; }

  RankTrace TakeTrace() const { return events_.Trace(*prepared_, endpoint_.rank(), options_.trace_epoch_ns); }

 private:
  int64_t ActionsOfBody() const {
    int64_t count = 0;
    for (const PreparedAction& action : prepared_->actions) count += action.list == kBodyList;
    return count;
  }

  // The current dynamic loss scale.
  absl::StatusOr<double> LossScale() const {
    if (device_ != nullptr) return device_->LossScaleNow();
    const double* scale = prepared_->figures.loss_scale;
    return scale != nullptr ? *scale : 0;
  }

  // Sets the repetition before which the streams must stop.
  void SetAllowedEnd() {
    streams_.SetAllowedEnd(device_ != nullptr ? std::min(votes_.allowed(), device_->allowed()) : votes_.allowed());
  }

  // True if the times of a repetition's steps are recorded.
  bool Traces(int64_t repetition) const {
    return tracing_ && (streams_.list() != kBodyList || repetition < options_.trace_repetitions);
  }

  bool Busy() const { return steps_left_ > 0 || votes_.open() || (device_ != nullptr && !device_->all_over()); }

  // Sleeps until something may have happened. Returns whether this rank's transfers have made progress.
  absl::StatusOr<bool> Sleep(int64_t quiet_since);

  // Collects what has ended on the device. Returns whether anything has.
  absl::StatusOr<bool> PollDevice();

  absl::Status Drive();

  // Moves a stream of communication or copies as far as it can without waiting. Returns whether anything moved.
  absl::StatusOr<bool> AdvanceStream(size_t index);

  // Posts the members of a ready group, all at once, and checks which members have ended. Unlike in rule P4, a member
  // starts once its partner is posted, even if other ranks' groups are not ready; that changes times, never results.
  absl::StatusOr<bool> AdvanceGroup(int index);

  // On an asynchronous device: makes all members start after everything that any of them waits for.
  absl::Status JoinGroup(const PreparedGroup& group);

  absl::Status BeginStep(PreparedStep& step, int64_t repetition) {
    return device_ != nullptr ? device_->BeginStep(step, Traces(repetition)) : absl::OkStatus();
  }

  // Runs at most one compute step, so that transfers are checked between two steps.
  absl::StatusOr<bool> AdvanceCompute();

  // True if a compute step could run now.
  bool ComputeReady() const {
    if (queue_ >= 0) return streams_.Ready(queue_);
    return streams_.HeadOf(0).ready || streams_.HeadOf(prepared_->backward_queue).ready;
  }

  // Rule P6: chooses the queue whose action runs next, by what has really finished. On an asynchronous device it
  // therefore chooses only when the previous action has ended there.
  absl::StatusOr<int> ChooseQueue();

  absl::Status RunKernel(const PreparedStream& stream, StreamState& state, const StreamStep& head,
                         PreparedAction& action);

  // Passes over steps at the head of the stream that rule P15 leaves out of the run. Returns whether there were any.
  absl::StatusOr<bool> SkipLeftOut(size_t stream_index);

  // True if it is not known yet whether rule P15 leaves out the stream's head: on an asynchronous device, the VALIDATE
  // that decides may be enqueued and not over.
  bool AwaitsVerdict(size_t stream_index) const;

  absl::Status Next(size_t stream_index) {
    const int64_t repetition = streams_[stream_index].repetition;
    streams_.Next(stream_index);
    if (device_ == nullptr || streams_[stream_index].repetition == repetition) return absl::OkStatus();
    return device_->EndRepetition(stream_index, repetition);
  }

  absl::Status EndStep(size_t stream_index, const StreamStep& head, int64_t start_ns, int64_t end_ns);

  absl::Status RecordStep(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t start_ns,
                          int64_t end_ns);

  absl::Status StepDone(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t end_ns);

  // Called when the action is finished in `repetition`.
  void Finish(PreparedAction& action, int64_t repetition);

  // Called on each stream of the action when the action's first step on that stream begins.
  absl::Status Begin(const PreparedAction& action, int64_t repetition);

  // Begins a vote or advances the one under way; returns whether a vote ended. A rank begins a vote when it has
  // finished a repetition after which it does not know yet whether the run goes on. A rank without actions takes part
  // too.
  absl::StatusOr<bool> AdvanceVote();

  int32_t IndexOf(const PreparedAction& action) const {
    return static_cast<int32_t>(&action - prepared_->actions.data());
  }

  // True if a transfer or collective of this rank is under way.
  bool AnyActive() const {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].active) return true;
    }
    return false;
  }

  // Called when nothing has happened on this rank since `since_ns`. Moves `since_ns` forward if an asynchronous device
  // has made progress nevertheless.
  absl::Status CheckQuiet(int64_t& since_ns);

  const Program& program_;
  Endpoint& endpoint_;
  Backend& backend_;
  const InterpreterOptions options_;
  std::unique_ptr<PreparedProgram> prepared_;
  // Owns the runs that PreparedStep.run points to.
  std::vector<std::unique_ptr<StepRun>> runs_;
  RepetitionVotes votes_;
  StepResults results_;
  StreamHeads streams_;
  PostedTransfers transfers_;
  // The stream of the action that is being computed: 0, or one of the queues in a message-driven program; -1 = none.
  int queue_ = 0;
  bool holds_slot_ = false;
  EventRecorder events_;
  // Null on a synchronous device, where a step that is done is over.
  std::unique_ptr<DeviceRun> device_;
  uint32_t since_look_ = 0;
  // Repetitions of the body below this have been reported to Deadlines as over.
  int64_t reported_iterations_ = 0;
  // The `since_ns` for which CheckQuiet last called DeviceRun::MarkProgress.
  int64_t asked_in_ = 0;
  // Runs of the epilogue so far.
  int64_t epilogues_ = 0;
  // By repetition of this RunList: number of its actions that are not finished.
  std::vector<int64_t> left_;

  // The first repetition that this RunList runs.
  int64_t first_repetition_ = 0;
  bool tracing_ = false;
  // Number of repetitions of this list that are traced.
  int64_t traced_ = 0;
  // Repetitions of the body, over all RunList calls that are over.
  int64_t body_repetitions_ = 0;
  int64_t steps_left_ = 0;
  int64_t steps_executed_ = 0;
  // True if something finished that a step on another stream may have waited for.
  bool unblocked_ = false;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_INTERPRETER_IMPL_H_
