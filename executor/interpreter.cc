#include "executor/interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/event_recorder.h"
#include "executor/learning_rate.h"
#include "executor/posted_transfers.h"
#include "executor/prepared_program.h"
#include "executor/rank_note.h"
#include "executor/repetition_votes.h"
#include "executor/step_results.h"
#include "executor/stream_heads.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

constexpr auto kLongestSleep = std::chrono::milliseconds(200);

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

  // Runs `count` more repetitions of a list.
  absl::StatusOr<int64_t> RunList(ActionList list, int64_t first_step, int64_t count) {
    first_repetition_ = list == kBodyList ? body_repetitions_ : list == kEpilogueList ? epilogues_++ : 0;
    const int64_t end = first_repetition_ + count;
    const double* loss_scale = prepared_->figures.loss_scale;
    results_.Begin(list, first_step, first_repetition_, count, loss_scale != nullptr ? *loss_scale : 0);
    if (list == kBodyList) left_.assign(count, ActionsOfBody());
    // Of several epilogues (rule P15) the first.
    tracing_ = options_.trace_repetitions > 0 && (list != kEpilogueList || first_repetition_ == 0);
    if (tracing_) {
      const int64_t traced = list == kBodyList ? options_.trace_repetitions - first_repetition_ : 1;
      events_.Reserve(std::clamp<int64_t>(traced, 0, count) * prepared_->steps_of_list[list]);
    }
    streams_.Begin(list, first_repetition_, body_repetitions_);
    transfers_.Begin();
    queue_ = prepared_->backward_queue < 0 ? 0 : -1;
    votes_.Begin(list == kBodyList && options_.stop != nullptr, first_repetition_, end);
    streams_.Allow(votes_.allowed());
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
    const int64_t start = MonotonicNanoseconds();
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

  absl::Status Drive() {
    // 0: something happened since the last look at the clock.
    int64_t quiet_since = 0;
    bool news = true;
    while (steps_left_ > 0 || votes_.open()) {
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
      if (progress || unblocked_) {
        quiet_since = 0;
        WEFT_ASSIGN_OR_RETURN(news, endpoint_.Poll());
        continue;
      }
      if (steps_left_ == 0 && !votes_.open()) break;
      if (quiet_since == 0) quiet_since = MonotonicNanoseconds();
      WEFT_ASSIGN_OR_RETURN(news, endpoint_.WaitForProgress(kLongestSleep));
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
      for (const int member : group.actions) {
        WEFT_RETURN_IF_ERROR(Begin(prepared_->actions[member], repetition));
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
    for (const int s : group.streams) streams_[s].active = false;
    for (const int s : group.stream_of) streams_.Next(s);
    unblocked_ = true;
    return true;
  }

  // Runs at most one compute step, so that transfers are looked at between two.
  absl::StatusOr<bool> AdvanceCompute() {
    if (queue_ < 0 && (queue_ = streams_.ChooseQueue(program_.compute_order())) < 0) return false;
    const size_t index = queue_;
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
    if (prepared_->backward_queue >= 0 && streams_.Head(index).first) queue_ = -1;
    if (holds_slot_ && !(status.ok() && ComputeReady() && options_.slots->Keep(endpoint_.rank()))) {
      holds_slot_ = false;
      options_.slots->Release(endpoint_.rank());
    }
    WEFT_RETURN_IF_ERROR(status);
    return true;
  }

  // Whether a compute step could run now.
  bool ComputeReady() const {
    if (queue_ < 0) return streams_.ChooseQueue(program_.compute_order()) >= 0;
    return streams_.Ready(queue_);
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
    const PreparedStep& step = action.steps[head.step];
    action.context.global_microbatch = step.global_microbatch;
    action.context.microbatch_sequences = step.sequences;
    action.context.first_sample = action.context.step * program_.recipe().global_batch_sequences() +
                                  step.microbatch_of_step * prepared_->microbatch_sequences +
                                  prepared_->first_own_sequence;
    action.context.column_shift = step.column_shift;
    action.context.row_shift = step.row_shift;
    action.context.writes_norm = step.writes_norm;
    const int64_t start_ns = tracing_ ? MonotonicNanoseconds() : 0;
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
      streams_.Next(stream_index);
      WEFT_RETURN_IF_ERROR(StepDone(stream_index, repetition, head, 0));
      skipped = true;
    }
    return skipped;
  }

  absl::Status EndStep(size_t stream_index, const StreamStep& head, int64_t start_ns, int64_t end_ns) {
    const StreamStep step = head;
    const int64_t repetition = streams_[stream_index].repetition;
    streams_.Next(stream_index);
    return RecordStep(stream_index, repetition, step, start_ns, end_ns);
  }

  absl::Status RecordStep(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t start_ns,
                          int64_t end_ns) {
    const PreparedAction& action = prepared_->actions[step.action];
    ++steps_executed_;
    if (tracing_ && (streams_.list() != kBodyList || repetition < options_.trace_repetitions)) {
      // The two queues of compute are one stream to the reader.
      const bool backwards = static_cast<int>(stream_index) == prepared_->backward_queue;
      events_.Record({repetition, action.action->id(), step.step, backwards ? 0 : static_cast<int32_t>(stream_index),
                      streams_[stream_index].ready_ns, start_ns, end_ns, end_ns});
    }
    return StepDone(stream_index, repetition, step, end_ns);
  }

  absl::Status StepDone(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t end_ns) {
    PreparedAction& action = prepared_->actions[step.action];
    PreparedStep& prepared = action.steps[step.step];
    ++prepared.done;
    --steps_left_;
    unblocked_ |= prepared.awaited;
    if (prepared.figures != 0) {
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
    streams_.Allow(votes_.allowed());
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

  // Nothing has happened on this rank since `since_ns`.
  absl::Status CheckQuiet(int64_t since_ns) {
    Endpoint::LastNote note;
    if (absl::Status status = endpoint_.CheckPeers(&note); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), " in ", DescribeNote(program_, note)));
    }
    const int64_t quiet_ns = MonotonicNanoseconds() - since_ns;
    const auto seconds = [](std::chrono::nanoseconds deadline) {
      return std::chrono::duration<double>(deadline).count();
    };
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
    const std::chrono::nanoseconds deadline =
        options_.deadlines != nullptr ? options_.deadlines->OfWaiting() : options_.timeout;
    // A prediction may allow what is under way more than that.
    if (AnyActive() || quiet_ns < deadline.count()) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", endpoint_.rank(), ": no progress for more than ", seconds(deadline), " s"));
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
  // Runs of the epilogue so far.
  int64_t epilogues_ = 0;
  // Actions of each repetition of this RunList that are not finished.
  std::vector<int64_t> left_;

  // The first of the list that is run.
  int64_t first_repetition_ = 0;
  bool tracing_ = false;
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
  WEFT_ASSIGN_OR_RETURN(auto prepared, PrepareProgram(program, endpoint->rank(), *arena));
  return std::unique_ptr<Interpreter>(
      new Interpreter(std::make_unique<Impl>(program, endpoint, backend, options, std::move(prepared))));
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
