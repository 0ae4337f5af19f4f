// Moves a rank's streams: steps begin, run or are enqueued, and end.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/interpreter/interpreter_impl.h"
#include "executor/interpreter/named_action.h"
#include "executor/numerics/learning_rate.h"
#include "proto/util/status.h"

namespace weft::exec {

absl::StatusOr<bool> Interpreter::Impl::AdvanceStream(size_t index) {
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
      // If the group has not ended, the stream waits. Otherwise it goes on with the step after the group.
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
    // A partner on another core may have seen the match before this rank noted that its own side was ready.
    start_ns = std::max(start_ns, state.ready_ns);
    state.active = false;
    moved = true;
    WEFT_RETURN_IF_ERROR(EndStep(index, head, start_ns, std::max(start_ns, end_ns)));
  }
}

absl::StatusOr<bool> Interpreter::Impl::AdvanceGroup(int index) {
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
  // Work that follows the group on any of its streams waits for the whole group.
  if (device_ != nullptr) WEFT_RETURN_IF_ERROR(device_->Join(group.streams));
  for (const int s : group.streams) streams_[s].active = false;
  for (const int s : group.stream_of) WEFT_RETURN_IF_ERROR(Next(s));
  unblocked_ = true;
  return true;
}

absl::Status Interpreter::Impl::JoinGroup(const PreparedGroup& group) {
  for (const int member : group.actions) {
    WEFT_RETURN_IF_ERROR(device_->streams().Await(prepared_->actions[member].steps[0]));
  }
  return device_->Join(group.streams);
}

absl::StatusOr<bool> Interpreter::Impl::AdvanceCompute() {
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
  // The next action is chosen when the last step of this one has ended.
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

absl::StatusOr<int> Interpreter::Impl::ChooseQueue() {
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

absl::Status Interpreter::Impl::RunKernel(const PreparedStream& stream, StreamState& state, const StreamStep& head,
                                          PreparedAction& action) {
  if (head.first) {
    StepContext& context = action.context;
    context.step = results_.StepOf(state.repetition) + action.action->step();
    // Rule P15: this action repeats the optimizer step that was taken back, which is the step before.
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
  action.context.first_element = step.first_element;
  action.context.writes_norm = step.writes_norm;
  const int64_t start_ns = tracing_ ? MonotonicNanoseconds() : 0;
  WEFT_RETURN_IF_ERROR(BeginStep(step, state.repetition));
  if (options_.flight != nullptr) options_.flight->Enter(IndexOf(action));
  const absl::Status status = step.in_run ? absl::OkStatus()
                              : step.run != nullptr
                                  ? step.run->Run(action.context)
                                  : backend_.Run(*step.step, step.inputs, step.outputs, action.context);
  if (options_.flight != nullptr) options_.flight->Leave();
  if (!status.ok()) {
    return ErrorAtAction(status.code(), absl::StrCat(results_.Where(action, state.repetition), ", kernel '",
                                                     step.step->name(), "': ", status.message()));
  }
  return EndStep(&stream - prepared_->streams.data(), head, start_ns, tracing_ ? MonotonicNanoseconds() : 0);
}

absl::StatusOr<bool> Interpreter::Impl::SkipLeftOut(size_t stream_index) {
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

bool Interpreter::Impl::AwaitsVerdict(size_t stream_index) const {
  if (device_ == nullptr || !results_.post_validated()) return false;
  const StreamState& state = streams_[stream_index];
  if (state.repetition >= streams_.allowed() || prepared_->streams[stream_index].steps[streams_.list()].empty()) {
    return false;
  }
  return prepared_->actions[streams_.Head(stream_index).action].action->if_exceeded() &&
         results_.verdict(state.repetition) == Verdict::kUnknown;
}

absl::Status Interpreter::Impl::EndStep(size_t stream_index, const StreamStep& head, int64_t start_ns, int64_t end_ns) {
  WEFT_RETURN_IF_ERROR(RecordStep(stream_index, streams_[stream_index].repetition, head, start_ns, end_ns));
  return Next(stream_index);
}

absl::Status Interpreter::Impl::RecordStep(size_t stream_index, int64_t repetition, const StreamStep& step,
                                           int64_t start_ns, int64_t end_ns) {
  ++steps_executed_;
  if (device_ != nullptr) {
    WEFT_RETURN_IF_ERROR(device_->EndStep(step.action, step.step, repetition, Traces(repetition)));
  } else if (Traces(repetition)) {
    // A trace shows the two compute queues as one stream.
    const bool backwards = static_cast<int>(stream_index) == prepared_->backward_queue;
    events_.Record({repetition, prepared_->actions[step.action].action->id(), step.step,
                    backwards ? 0 : static_cast<int32_t>(stream_index), streams_[stream_index].ready_ns, start_ns,
                    end_ns, end_ns});
  }
  return StepDone(stream_index, repetition, step, end_ns);
}

absl::Status Interpreter::Impl::StepDone(size_t stream_index, int64_t repetition, const StreamStep& step,
                                         int64_t end_ns) {
  PreparedAction& action = prepared_->actions[step.action];
  PreparedStep& prepared = action.steps[step.step];
  ++prepared.done;
  --steps_left_;
  unblocked_ |= prepared.awaited;
  if (prepared.figures != 0 && device_ == nullptr) {
    WEFT_RETURN_IF_ERROR(results_.Take(prepared.figures, action, repetition, prepared_->figures));
    // This step may have decided which actions are left out (rule P15).
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

void Interpreter::Impl::Finish(PreparedAction& action, int64_t repetition) {
  if (options_.flight != nullptr) options_.flight->End(IndexOf(action));
  unblocked_ |= action.awaited;
  if (streams_.list() != kBodyList || --left_[repetition - first_repetition_] > 0) return;
  // On an asynchronous device the repetition ends later; PollDevice then reports it.
  if (device_ != nullptr) return;
  const int64_t now_ns = MonotonicNanoseconds();
  if (options_.deadlines != nullptr) options_.deadlines->RepetitionIsOver(now_ns);
  results_.Over(repetition, now_ns);
}

absl::Status Interpreter::Impl::Begin(const PreparedAction& action, int64_t repetition) {
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
  return ErrorAtAction(absl::StatusCode::kInternal,
                       absl::StrCat(results_.Where(action, repetition), ": injected failure"));
}

}  // namespace weft::exec
