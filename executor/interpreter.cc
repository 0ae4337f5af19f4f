#include "executor/interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/device_run.h"
#include "executor/event_recorder.h"
#include "executor/learning_rate.h"
#include "executor/posted_transfers.h"
#include "executor/prepared_program.h"
#include "executor/program_edges.h"
#include "executor/rank_note.h"
#include "executor/repetition_votes.h"
#include "executor/step_results.h"
#include "executor/stream_heads.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

constexpr auto kLongestSleep = std::chrono::milliseconds(200);
// While an asynchronous device works: an eighth of what has been waited already, within these.
constexpr auto kShortestLook = std::chrono::microseconds(10);
constexpr auto kLongestLook = std::chrono::milliseconds(1);
constexpr uint32_t kStepsBetweenLooks = 64;

}  // namespace

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

  // Before anything is run.
  absl::Status Prepare(ComputeDevice& device) {
    if (!device.asynchronous()) return absl::OkStatus();
    if (options_.slots != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("compute slots on device '", device.name(), "'"));
    }
    WEFT_RETURN_IF_ERROR(ConnectEdges(*prepared_, endpoint_));
    WEFT_ASSIGN_OR_RETURN(device_, DeviceRun::Create(*prepared_, device, results_, events_));
    return absl::OkStatus();
  }

  // Runs `count` more repetitions of a list, to their end.
  absl::StatusOr<int64_t> RunList(ActionList list, int64_t first_step, int64_t count) {
    first_repetition_ = list == kBodyList ? body_repetitions_ : list == kEpilogueList ? epilogues_++ : 0;
    const int64_t end = first_repetition_ + count;
    WEFT_ASSIGN_OR_RETURN(const double loss_scale, LossScale());
    results_.Begin(list, first_step, first_repetition_, count, loss_scale);
    if (list == kBodyList) left_.assign(count, ActionsOfBody());
    // Of several epilogues (rule P15) the first.
    tracing_ = options_.trace_repetitions > 0 && (list != kEpilogueList || first_repetition_ == 0);
    if (tracing_) {
      const int64_t traced = list == kBodyList ? options_.trace_repetitions - first_repetition_ : 1;
      traced_ = std::clamp<int64_t>(traced, 0, count);
      events_.Reserve(traced_ * prepared_->steps_of_list[list]);
    }
    if (device_ != nullptr) WEFT_RETURN_IF_ERROR(device_->Begin(list, first_repetition_, tracing_ ? traced_ : 0));
    streams_.Begin(list, first_repetition_, body_repetitions_);
    transfers_.Begin();
    queue_ = prepared_->backward_queue < 0 ? 0 : -1;
    votes_.Begin(list == kBodyList && options_.stop != nullptr, first_repetition_, end);
    Allow();
    steps_left_ = prepared_->steps_of_list[list] * count;
    WEFT_RETURN_IF_ERROR(Drive());
    const int64_t ran = votes_.end() - first_repetition_;
    if (list == kBodyList) {
      body_repetitions_ += ran;
      results_.End(body_repetitions_);
    }
    return ran;
  }

  // Asks all ranks whether to stop, and waits for the answer.
  absl::StatusOr<bool> VoteNow() {
    StopVote& vote = votes_.vote();
    WEFT_RETURN_IF_ERROR(vote.Start());
    int64_t start = MonotonicNanoseconds();
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool done, vote.Advance());
      if (done) return vote.stop();
      WEFT_ASSIGN_OR_RETURN(const bool news, endpoint_.WaitForProgress(kLongestSleep));
      if (!news) WEFT_RETURN_IF_ERROR(CheckQuiet(start));
    }
  }

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

  // A dynamic loss scale as it is now.
  absl::StatusOr<double> LossScale() const {
    if (device_ != nullptr) return device_->LossScaleNow();
    const double* scale = prepared_->figures.loss_scale;
    return scale != nullptr ? *scale : 0;
  }

  // How far the streams may go.
  void Allow() {
    streams_.Allow(device_ != nullptr ? std::min(votes_.allowed(), device_->allowed()) : votes_.allowed());
  }

  // Whether the times of a repetition's steps are wanted.
  bool Traces(int64_t repetition) const {
    return tracing_ && (streams_.list() != kBodyList || repetition < options_.trace_repetitions);
  }

  bool Busy() const { return steps_left_ > 0 || votes_.open() || (device_ != nullptr && !device_->all_over()); }

  // Sleeps until something may have happened; whether this rank's transfers have got on.
  absl::StatusOr<bool> Sleep(int64_t quiet_since) {
    std::chrono::nanoseconds longest = kLongestSleep;
    if (device_ != nullptr) {
      // The device does not call: it is looked at again and again.
      const std::chrono::nanoseconds waited(MonotonicNanoseconds() - quiet_since);
      longest = std::clamp<std::chrono::nanoseconds>(waited / 8, kShortestLook, kLongestLook);
    }
    return endpoint_.WaitForProgress(longest);
  }

  // What has ended on the device; whether anything has.
  absl::StatusOr<bool> LookAtDevice() {
    if (device_ == nullptr) return false;
    WEFT_ASSIGN_OR_RETURN(const bool any, device_->Look());
    if (any) {
      // Repetitions may begin, verdicts may be known.
      unblocked_ = true;
      Allow();
      const bool first_is_over = streams_.list() == kBodyList && device_->over() > first_repetition_;
      if (options_.deadlines != nullptr && first_is_over) options_.deadlines->FirstIsOver();
    }
    return any;
  }

  absl::Status Drive() {
    // 0: something happened since the last look at the clock.
    int64_t quiet_since = 0;
    bool news = true;
    while (Busy()) {
      bool progress = false;
      if (votes_.voting()) {
        WEFT_ASSIGN_OR_RETURN(progress, AdvanceVote());
        news |= progress;
      }
      if (std::exchange(unblocked_, false) || news) {
        for (size_t i = 1; i < streams_.size(); ++i) {
          if (prepared_->streams[i].type == StreamType::kCompute) continue;
          WEFT_ASSIGN_OR_RETURN(const bool moved, AdvanceStream(i));
          progress |= moved;
        }
      }
      WEFT_ASSIGN_OR_RETURN(const bool computed, AdvanceCompute());
      progress |= computed;
      // A device that is fed without a pause is looked at now and then.
      if (!progress || ++since_look_ % kStepsBetweenLooks == 0) {
        WEFT_ASSIGN_OR_RETURN(const bool looked, LookAtDevice());
        progress |= looked;
      }
      if (progress || unblocked_) {
        quiet_since = 0;
        WEFT_ASSIGN_OR_RETURN(news, endpoint_.Poll());
        continue;
      }
      if (!Busy()) break;
      if (quiet_since == 0) quiet_since = MonotonicNanoseconds();
      WEFT_ASSIGN_OR_RETURN(news, Sleep(quiet_since));
      if (!news) WEFT_RETURN_IF_ERROR(CheckQuiet(quiet_since));
    }
    return absl::OkStatus();
  }

  // Moves all that can be moved without waiting on a transfer or copy stream; whether anything moved.
  absl::StatusOr<bool> AdvanceStream(size_t index) {
    const PreparedStream& stream = prepared_->streams[index];
    StreamState& state = streams_[index];
    bool moved = false;
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool skipped, SkipLeftOut(index));
      moved |= skipped;
      if (AwaitsVerdict(index)) return moved;
      if (const int group = streams_.GroupAtHead(index); group >= 0) {
        WEFT_ASSIGN_OR_RETURN(const bool group_moved, AdvanceGroup(group));
        moved |= group_moved;
        // It goes on behind the group.
        if (!group_moved || streams_.GroupAtHead(index) == group) return moved;
        continue;
      }
      if (!state.active) {
        if (!streams_.Ready(index)) return moved;
        const StreamStep& head = streams_.Head(index);
        PreparedAction& action = prepared_->actions[head.action];
        state.ready_ns = MonotonicNanoseconds();
        WEFT_RETURN_IF_ERROR(Begin(action, state.repetition));
        if (stream.type == StreamType::kCopy) {
          WEFT_RETURN_IF_ERROR(RunKernel(stream, state, head, action));
          moved = true;
          continue;
        }
        WEFT_RETURN_IF_ERROR(BeginStep(action.steps[head.step], state.repetition));
        WEFT_RETURN_IF_ERROR(stream.type == StreamType::kCollective
                                 ? stream.communicator->Start(endpoint_, *action.steps[head.step].collective)
                                 : transfers_.Post(head.action));
        state.active = true;
        moved = true;
      }
      const StreamStep& head = streams_.Head(index);
      int64_t start_ns = 0, end_ns = 0;
      if (stream.type == StreamType::kCollective) {
        WEFT_ASSIGN_OR_RETURN(const bool done, stream.communicator->Advance(endpoint_));
        if (!done) return moved;
        end_ns = tracing_ ? MonotonicNanoseconds() : 0;
        start_ns = stream.communicator->start_ns();
      } else {
        const Transfer& transfer = transfers_[head.action];
        if (!transfers_.Done(head.action)) return moved;
        start_ns = transfer.start_ns;
        end_ns = transfer.end_ns;
      }
      // A partner on another core may have seen the match before this rank noted that it was ready.
      start_ns = std::max(start_ns, state.ready_ns);
      state.active = false;
      moved = true;
      WEFT_RETURN_IF_ERROR(EndStep(index, head, start_ns, std::max(start_ns, end_ns)));
    }
  }

  // Posts the members of a group that is ready, all at once, and looks for those that have ended. A member is not held
  // up by its partner's group: that changes times, never results.
  absl::StatusOr<bool> AdvanceGroup(int index) {
    const PreparedGroup& group = prepared_->groups[index];
    bool moved = false;
    if (!transfers_.GroupPosted(index)) {
      const int64_t repetition = streams_[group.streams[0]].repetition;
      for (const int s : group.streams) {
        if (streams_[s].repetition != repetition || streams_.GroupAtHead(s) != index) {
          return false;
        }
      }
      for (const int member : group.actions) {
        if (!streams_.DependenciesSatisfied(prepared_->actions[member], repetition)) return false;
      }
      const int64_t now = MonotonicNanoseconds();
      for (const int s : group.streams) {
        streams_[s].active = true;
        streams_[s].ready_ns = now;
      }
      if (device_ != nullptr) WEFT_RETURN_IF_ERROR(JoinGroup(group));
      for (const int member : group.actions) {
        WEFT_RETURN_IF_ERROR(Begin(prepared_->actions[member], repetition));
        WEFT_RETURN_IF_ERROR(BeginStep(prepared_->actions[member].steps[0], repetition));
      }
      WEFT_RETURN_IF_ERROR(transfers_.PostGroup(index));
      moved = true;
    }
    for (int i = transfers_.NextEnded(index); i >= 0; i = transfers_.NextEnded(index)) {
      const int stream = group.stream_of[i];
      const Transfer& transfer = transfers_[group.actions[i]];
      const int64_t start = std::max(transfer.start_ns, streams_[stream].ready_ns);
      moved = true;
      WEFT_RETURN_IF_ERROR(RecordStep(stream, streams_[stream].repetition,
                                      {.action = group.actions[i], .first = true, .last = true}, start,
                                      std::max(start, transfer.end_ns)));
    }
    if (!transfers_.EndGroup(index)) return moved;
    // Its streams were held until now.
    if (device_ != nullptr) WEFT_RETURN_IF_ERROR(device_->Join(group.streams));
    for (const int s : group.streams) streams_[s].active = false;
    for (const int s : group.stream_of) WEFT_RETURN_IF_ERROR(Next(s));
    unblocked_ = true;
    return true;
  }

  // On an asynchronous device: all members start behind all that any of them waits for.
  absl::Status JoinGroup(const PreparedGroup& group) {
    for (const int member : group.actions) {
      WEFT_RETURN_IF_ERROR(device_->streams().Await(prepared_->actions[member].steps[0]));
    }
    return device_->Join(group.streams);
  }

  absl::Status BeginStep(PreparedStep& step, int64_t repetition) {
    return device_ != nullptr ? device_->BeginStep(step, Traces(repetition)) : absl::OkStatus();
  }

  // Runs at most one compute step, so that transfers are looked at between two.
  absl::StatusOr<bool> AdvanceCompute() {
    if (queue_ < 0) {
      WEFT_ASSIGN_OR_RETURN(queue_, ChooseQueue());
      if (queue_ < 0) return false;
    }
    const size_t index = queue_;
    if (device_ != nullptr && results_.post_validated()) {
      WEFT_RETURN_IF_ERROR(SkipLeftOut(index).status());
      if (AwaitsVerdict(index)) return false;
    }
    const PreparedStream& stream = prepared_->streams[index];
    StreamState& state = streams_[index];
    if (!state.ready) {
      if (!streams_.Ready(index)) return false;
      state.ready = true;
      if (options_.slots != nullptr || tracing_) state.ready_ns = MonotonicNanoseconds();
      const StreamStep& head = streams_.Head(index);
      if (head.first) WEFT_RETURN_IF_ERROR(Begin(prepared_->actions[head.action], state.repetition));
    }
    if (options_.slots != nullptr && !holds_slot_) {
      if (!options_.slots->Acquire(endpoint_.rank(), state.ready_ns)) return false;
      holds_slot_ = true;
    }
    const StreamStep head = streams_.Head(index);
    state.ready = false;
    const absl::Status status = RunKernel(stream, state, head, prepared_->actions[head.action]);
    if (status.ok()) WEFT_RETURN_IF_ERROR(SkipLeftOut(index).status());
    // Which action comes next is seen when this one's last step has ended.
    if (prepared_->backward_queue >= 0 && streams_.Head(index).first) {
      queue_ = -1;
      if (device_ != nullptr && status.ok()) WEFT_RETURN_IF_ERROR(device_->streams().EndChosen());
    }
    if (holds_slot_ && !(status.ok() && ComputeReady() && options_.slots->Keep(endpoint_.rank()))) {
      holds_slot_ = false;
      options_.slots->Release(endpoint_.rank());
    }
    WEFT_RETURN_IF_ERROR(status);
    return true;
  }

  // Whether a compute step could run now.
  bool ComputeReady() const {
    if (queue_ >= 0) return streams_.Ready(queue_);
    return streams_.HeadOf(0).ready || streams_.HeadOf(prepared_->backward_queue).ready;
  }

  // Rule P6: by what is really over, so on an asynchronous device when the action before has ended there.
  absl::StatusOr<int> ChooseQueue() {
    const int queues[2] = {0, prepared_->backward_queue};
    if (device_ != nullptr) {
      WEFT_ASSIGN_OR_RETURN(const bool idle, device_->streams().Idle());
      if (!idle) return -1;
    }
    StreamHeads::QueueHead heads[2];
    for (int i = 0; i < 2; ++i) {
      heads[i] = streams_.HeadOf(queues[i]);
      if (device_ == nullptr || !heads[i].ready) continue;
      WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> latest,
                            device_->streams().Arrival(prepared_->actions[streams_.Head(queues[i]).action],
                                                       streams_[queues[i]].repetition));
      heads[i].ready = latest.has_value();
      if (latest.has_value()) heads[i].arrival.second = *latest;
    }
    return streams_.ChooseQueue(program_.compute_order(), heads[0], heads[1]);
  }

  absl::Status RunKernel(const PreparedStream& stream, StreamState& state, const StreamStep& head,
                         PreparedAction& action) {
    if (head.first) {
      StepContext& context = action.context;
      context.step = results_.StepOf(state.repetition) + action.action->step();
      // Rule P15: the step that was taken back.
      if (action.action->if_exceeded() && action.action->kind() == OPTIMIZER_STEP) --context.step;
      context.learning_rate = LearningRateAt(program_.recipe(), context.step);
      context.data = options_.data;
      endpoint_.Note(context.step, action.action->id());
    }
    PreparedStep& step = action.steps[head.step];
    action.context.stream = stream.device_stream;
    action.context.global_microbatch = step.global_microbatch;
    action.context.microbatch_sequences = step.sequences;
    action.context.first_sample = action.context.step * program_.recipe().global_batch_sequences() +
                                  step.microbatch_of_step * prepared_->microbatch_sequences +
                                  prepared_->first_own_sequence;
    action.context.column_shift = step.column_shift;
    action.context.row_shift = step.row_shift;
    action.context.writes_norm = step.writes_norm;
    const int64_t start_ns = tracing_ ? MonotonicNanoseconds() : 0;
    WEFT_RETURN_IF_ERROR(BeginStep(step, state.repetition));
    if (options_.flight != nullptr) options_.flight->Enter(IndexOf(action));
    const absl::Status status = backend_.Run(*step.step, step.inputs, step.outputs, action.context);
    if (options_.flight != nullptr) options_.flight->Leave();
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(results_.Where(action, state.repetition), ", kernel '",
                                                      step.step->name(), "': ", status.message()));
    }
    return EndStep(&stream - prepared_->streams.data(), head, start_ns, tracing_ ? MonotonicNanoseconds() : 0);
  }

  // Goes over steps at the head of the stream that rule P15 leaves out of the run; whether there were any.
  absl::StatusOr<bool> SkipLeftOut(size_t stream_index) {
    if (!results_.post_validated() || prepared_->streams[stream_index].steps[streams_.list()].empty()) return false;
    const StreamState& state = streams_[stream_index];
    bool skipped = false;
    while (!state.active && state.repetition < streams_.allowed()) {
      const StreamStep head = streams_.Head(stream_index);
      const int64_t repetition = state.repetition;
      if (!prepared_->actions[head.action].action->if_exceeded() || results_.verdict(repetition) != Verdict::kRight) {
        break;
      }
      WEFT_RETURN_IF_ERROR(StepDone(stream_index, repetition, head, 0));
      WEFT_RETURN_IF_ERROR(Next(stream_index));
      skipped = true;
    }
    return skipped;
  }

  // Whether it is not known yet if the stream's head is left out: on an asynchronous device the VALIDATE that says so
  // may have been enqueued and not be over.
  bool AwaitsVerdict(size_t stream_index) const {
    if (device_ == nullptr || !results_.post_validated()) return false;
    const StreamState& state = streams_[stream_index];
    if (state.repetition >= streams_.allowed() || prepared_->streams[stream_index].steps[streams_.list()].empty()) {
      return false;
    }
    return prepared_->actions[streams_.Head(stream_index).action].action->if_exceeded() &&
           results_.verdict(state.repetition) == Verdict::kUnknown;
  }

  absl::Status Next(size_t stream_index) {
    const int64_t repetition = streams_[stream_index].repetition;
    streams_.Next(stream_index);
    if (device_ == nullptr || streams_[stream_index].repetition == repetition) return absl::OkStatus();
    return device_->EndRepetition(stream_index, repetition);
  }

  absl::Status EndStep(size_t stream_index, const StreamStep& head, int64_t start_ns, int64_t end_ns) {
    WEFT_RETURN_IF_ERROR(RecordStep(stream_index, streams_[stream_index].repetition, head, start_ns, end_ns));
    return Next(stream_index);
  }

  absl::Status RecordStep(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t start_ns,
                          int64_t end_ns) {
    ++steps_executed_;
    if (device_ != nullptr) {
      WEFT_RETURN_IF_ERROR(device_->EndStep(step.action, step.step, repetition, Traces(repetition)));
    } else if (Traces(repetition)) {
      // The two queues of compute are one stream to the reader.
      const bool backwards = static_cast<int>(stream_index) == prepared_->backward_queue;
      events_.Record({repetition, prepared_->actions[step.action].action->id(), step.step,
                      backwards ? 0 : static_cast<int32_t>(stream_index), streams_[stream_index].ready_ns, start_ns,
                      end_ns, end_ns});
    }
    return StepDone(stream_index, repetition, step, end_ns);
  }

  absl::Status StepDone(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t end_ns) {
    PreparedAction& action = prepared_->actions[step.action];
    PreparedStep& prepared = action.steps[step.step];
    ++prepared.done;
    --steps_left_;
    unblocked_ |= prepared.awaited;
    if (prepared.figures != 0 && device_ == nullptr) {
      WEFT_RETURN_IF_ERROR(results_.Take(prepared.figures, action, repetition, prepared_->figures));
      // What was left out or not (rule P15).
      unblocked_ = true;
    }
    if (step.last) {
      int64_t finished = action.steps[action.last_steps[0]].done;
      for (size_t i = 1; i < action.last_steps.size(); ++i) {
        finished = std::min(finished, action.steps[action.last_steps[i]].done);
      }
      if (finished > action.finished) {
        action.finished = finished;
        if (prepared_->backward_queue >= 0) {
          const StreamType type = prepared_->streams[stream_index].type;
          const bool communicates = type == StreamType::kTransfers || type == StreamType::kCollective;
          action.finished_ns = communicates && end_ns > 0 ? end_ns : MonotonicNanoseconds();
        }
        Finish(action, repetition);
      }
    }
    return absl::OkStatus();
  }

  // The action is finished in `repetition`.
  void Finish(PreparedAction& action, int64_t repetition) {
    if (options_.flight != nullptr) options_.flight->End(IndexOf(action));
    unblocked_ |= action.awaited;
    if (streams_.list() != kBodyList || --left_[repetition - first_repetition_] > 0) return;
    // On an asynchronous device it is over later.
    if (device_ != nullptr) return;
    if (options_.deadlines != nullptr) options_.deadlines->FirstIsOver();
    results_.Over(repetition, MonotonicNanoseconds());
  }

  // A step of the action begins, the first on its stream.
  absl::Status Begin(const PreparedAction& action, int64_t repetition) {
    if (options_.flight != nullptr) {
      options_.flight->Begin(IndexOf(action), results_.StepOf(repetition) + action.action->step());
    }
    if (!options_.failure.has_value() || options_.failure->flip) return absl::OkStatus();
    const InjectedFailure& failure = *options_.failure;
    if (failure.rank != endpoint_.rank() || failure.repetition != repetition || failure.action != action.action->id()) {
      return absl::OkStatus();
    }
    endpoint_.Note(results_.StepOf(repetition) + action.action->step(), action.action->id());
    if (failure.kill) kill(getpid(), SIGKILL);
    if (failure.stall) {
      if (options_.flight != nullptr) options_.flight->Enter(IndexOf(action));
      while (failure.stall_until == nullptr || !*failure.stall_until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      if (options_.flight != nullptr) options_.flight->Leave();
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat(results_.Where(action, repetition), ": injected failure"));
  }

  // Whether the vote went on: this rank begins it when it has finished a repetition after which it does not know yet.
  // One without actions still takes part.
  absl::StatusOr<bool> AdvanceVote() {
    const int64_t next = votes_.next();
    if (next >= 0 && left_[next - first_repetition_] == 0) WEFT_RETURN_IF_ERROR(votes_.Start());
    const int64_t end = votes_.end();
    WEFT_ASSIGN_OR_RETURN(const bool over, votes_.Advance());
    steps_left_ -= (end - votes_.end()) * prepared_->steps_of_list[streams_.list()];
    Allow();
    return over;
  }

  int32_t IndexOf(const PreparedAction& action) const {
    return static_cast<int32_t>(&action - prepared_->actions.data());
  }

  // Whether a transfer or collective of this rank is under way.
  bool AnyActive() const {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].active) return true;
    }
    return false;
  }

  // Nothing has happened on this rank since `since_ns`; moved on where an asynchronous device has got on nevertheless.
  absl::Status CheckQuiet(int64_t& since_ns) {
    Endpoint::LastNote note;
    if (absl::Status status = endpoint_.CheckPeers(&note); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), " in ", DescribeNote(program_, note)));
    }
    const int64_t quiet_ns = MonotonicNanoseconds() - since_ns;
    const auto seconds = [](std::chrono::nanoseconds deadline) {
      return std::chrono::duration<double>(deadline).count();
    };
    const std::chrono::nanoseconds of_waiting =
        options_.deadlines != nullptr ? options_.deadlines->OfWaiting() : options_.timeout;
    if (device_ != nullptr && quiet_ns >= of_waiting.count() / 2) {
      if (std::exchange(asked_in_, since_ns) != since_ns) WEFT_RETURN_IF_ERROR(device_->Pause());
      if (quiet_ns < of_waiting.count()) return absl::OkStatus();
      WEFT_ASSIGN_OR_RETURN(const bool got_on, device_->GotOn());
      if (got_on) {
        since_ns += quiet_ns;
        return absl::OkStatus();
      }
      WEFT_ASSIGN_OR_RETURN(const std::optional<DeviceStreams::Unfinished> unfinished, device_->FindUnfinished());
      if (unfinished.has_value()) {
        const int index = unfinished->action;
        const std::chrono::nanoseconds deadline =
            std::max(of_waiting, options_.deadlines != nullptr ? options_.deadlines->OfWaitIn(index) : of_waiting);
        if (quiet_ns < deadline.count()) return absl::OkStatus();
        return absl::DeadlineExceededError(
            absl::StrCat(results_.Where(prepared_->actions[index], unfinished->repetition),
                         " has not ended on the device for more than ", seconds(deadline), " s"));
      }
    }
    for (size_t i = 0; i < streams_.size(); ++i) {
      const PreparedStream& stream = prepared_->streams[i];
      if (!streams_[i].active) continue;
      int index = streams_.Head(i).action;
      if (const int group = prepared_->actions[index].group; group >= 0) {
        index = transfers_.Unfinished(group);
      }
      const std::chrono::nanoseconds deadline =
          options_.deadlines != nullptr ? options_.deadlines->OfWaitIn(index) : options_.timeout;
      if (quiet_ns < deadline.count()) continue;
      const PreparedAction& action = prepared_->actions[index];
      const int peer = stream.communicator != nullptr ? stream.communicator->waiting_for() : action.peer;
      return absl::DeadlineExceededError(absl::StrCat(results_.Where(action, streams_[i].repetition),
                                                      " has waited for rank ", peer, " on '", stream.name,
                                                      "' for more than ", seconds(deadline), " s"));
    }
    // A prediction may allow what is under way more than that.
    if (AnyActive() || quiet_ns < of_waiting.count()) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", endpoint_.rank(), ": no progress for more than ", seconds(of_waiting), " s"));
  }

  const Program& program_;
  Endpoint& endpoint_;
  Backend& backend_;
  const InterpreterOptions options_;
  std::unique_ptr<PreparedProgram> prepared_;
  RepetitionVotes votes_;
  StepResults results_;
  StreamHeads streams_;
  PostedTransfers transfers_;
  // The stream that the action being computed is on: 0, or in a message-driven program one of the queues, -1 = none.
  int queue_ = 0;
  bool holds_slot_ = false;
  EventRecorder events_;
  // Null on a synchronous device: there a step that is done is over.
  std::unique_ptr<DeviceRun> device_;
  uint32_t since_look_ = 0;
  // When the quiet time began in which the device was asked how far it is.
  int64_t asked_in_ = 0;
  // Runs of the epilogue so far.
  int64_t epilogues_ = 0;
  // Actions of each repetition of this RunList that are not finished.
  std::vector<int64_t> left_;

  // The first of the list that is run.
  int64_t first_repetition_ = 0;
  bool tracing_ = false;
  // Repetitions of this list.
  int64_t traced_ = 0;
  // Of the body, over all RunList calls that are over.
  int64_t body_repetitions_ = 0;
  int64_t steps_left_ = 0;
  int64_t steps_executed_ = 0;
  // Something finished that a step on another stream may have waited for.
  bool unblocked_ = false;
};

Interpreter::Interpreter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Interpreter::~Interpreter() = default;

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Create(const Program& program, Endpoint* endpoint,
                                                                 Backend* backend, const Arena* arena,
                                                                 const InterpreterOptions& options) {
  WEFT_ASSIGN_OR_RETURN(auto prepared,
                        PrepareProgram(program, endpoint->rank(), *arena, endpoint->native_collectives()));
  auto impl = std::make_unique<Impl>(program, endpoint, backend, options, std::move(prepared));
  WEFT_RETURN_IF_ERROR(impl->Prepare(arena->device()));
  return std::unique_ptr<Interpreter>(new Interpreter(std::move(impl)));
}

absl::Status Interpreter::RunPrologue(int64_t first_step) {
  return impl_->RunList(kPrologueList, first_step, 1).status();
}

absl::Status Interpreter::RunEpilogue(int64_t next_step) {
  return impl_->RunList(kEpilogueList, next_step, 1).status();
}

absl::StatusOr<int64_t> Interpreter::RunBody(int64_t first_step, int64_t repetitions) {
  if (!impl_->program().step_barrier()) return impl_->RunList(kBodyList, first_step, repetitions);
  int64_t ran = 0;
  // Rule P1: with a barrier, no rank begins a repetition before all have finished the one before. Nothing overlaps, so
  // the vote is asked before each repetition.
  const int64_t steps = std::max(1, impl_->program().steps_per_repetition());
  for (; ran < repetitions; ++ran) {
    WEFT_ASSIGN_OR_RETURN(const int64_t one, impl_->RunList(kBodyList, first_step + ran * steps, 1));
    WEFT_RETURN_IF_ERROR(Barrier(impl_->endpoint(), impl_->options().timeout));
    if (impl_->options().stop == nullptr || ran + one >= repetitions) continue;
    WEFT_ASSIGN_OR_RETURN(const bool stop, impl_->VoteNow());
    if (stop) return ran + one;
  }
  return ran;
}

absl::StatusOr<bool> Interpreter::AgreeToStop() { return impl_->VoteNow(); }

const std::vector<StepResult>& Interpreter::results() const { return impl_->results(); }
RankTrace Interpreter::TakeTrace() const { return impl_->TakeTrace(); }
int64_t Interpreter::steps_executed() const { return impl_->steps_executed(); }

}  // namespace weft
