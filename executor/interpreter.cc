#include "executor/interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/exact192.h"
#include "executor/learning_rate.h"
#include "executor/prepared_program.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

constexpr auto kLongestSleep = std::chrono::milliseconds(200);

struct RecordedEvent {
  int64_t repetition;
  int32_t action;
  int32_t step;
  int32_t stream;
  int64_t ready_ns, start_ns, end_ns, finish_ns;
};

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
        vote_(*endpoint, options.stop),
        steps_per_repetition_(std::max(1, program.steps_per_repetition())),
        streams_(prepared_->streams.size()),
        groups_(prepared_->groups.size()) {}

  // Runs `count` more repetitions of a list.
  absl::StatusOr<int64_t> RunList(ActionList list, int64_t first_step, int64_t count) {
    list_ = list;
    first_repetition_ = list == kBodyList ? body_repetitions_ : 0;
    end_repetition_ = first_repetition_ + count;
    first_step_ = first_step;
    if (list == kBodyList) {
      results_.resize(results_.size() + count * steps_per_repetition_);
      left_.assign(count, ActionsOfBody());
    }
    tracing_ = options_.trace_repetitions > 0;
    if (tracing_) {
      const int64_t traced = list == kBodyList ? options_.trace_repetitions - first_repetition_ : 1;
      events_.reserve(events_.size() + std::clamp<int64_t>(traced, 0, count) * prepared_->steps_of_list[list]);
    }
    for (StreamState& stream : streams_) stream = {.repetition = first_repetition_};
    for (GroupState& group : groups_) group = {};
    queue_ = prepared_->backward_queue < 0 ? 0 : -1;
    votes_ = list == kBodyList && options_.stop != nullptr;
    allowed_ = votes_ ? first_repetition_ + 1 : end_repetition_;
    next_vote_ = first_repetition_;
    steps_left_ = prepared_->steps_of_list[list] * count;
    WEFT_RETURN_IF_ERROR(Drive());
    const int64_t ran = end_repetition_ - first_repetition_;
    if (list == kBodyList) {
      body_repetitions_ += ran;
      results_.resize(body_repetitions_ * steps_per_repetition_);
    }
    return ran;
  }

  // Asks all ranks whether to stop, and waits for the answer.
  absl::StatusOr<bool> VoteNow() {
    WEFT_RETURN_IF_ERROR(vote_.Start());
    const int64_t start = MonotonicNanoseconds();
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool done, vote_.Advance());
      if (done) return vote_.stop();
      WEFT_ASSIGN_OR_RETURN(const bool news, endpoint_.WaitForProgress(kLongestSleep));
      if (!news) WEFT_RETURN_IF_ERROR(CheckQuiet(start));
    }
  }

  const Program& program() const { return program_; }
  Endpoint& endpoint() { return endpoint_; }
  const InterpreterOptions& options() const { return options_; }
  std::vector<StepResult>& results() { return results_; }
  int64_t steps_executed() const { return steps_executed_; }

  RankTrace TakeTrace() const {
    RankTrace trace;
    trace.set_rank(endpoint_.rank());
    trace.set_template_name(prepared_->rank_template->name());
    std::vector<int> number(prepared_->streams.size(), -1);
    auto ps = [&](int64_t ns) { return (ns - options_.trace_epoch_ns) * 1000; };
    for (const RecordedEvent& event : events_) {
      if (number[event.stream] < 0) {
        number[event.stream] = trace.streams_size();
        trace.add_streams(prepared_->streams[event.stream].name);
      }
      TraceEvent* out = trace.add_events();
      out->set_repetition(static_cast<int32_t>(event.repetition));
      out->set_action(event.action);
      out->set_step(event.step);
      out->set_stream(number[event.stream]);
      out->set_ready_ps(ps(event.ready_ns));
      out->set_start_ps(ps(event.start_ns));
      out->set_end_ps(ps(event.end_ns));
      out->set_finish_ps(ps(event.finish_ns));
    }
    return trace;
  }

 private:
  // Where a stream stands: the step at `position` of `repetition` is its head.
  struct StreamState {
    int64_t repetition = 0;
    size_t position = 0;
    // The head's waits are over; for a transfer, it has been posted.
    bool active = false;
    // The head waits for nothing but a compute slot.
    bool ready = false;
    int64_t ready_ns = 0;
  };

  // Of a group of transfers.
  struct GroupState {
    bool posted = false;
    // By member: whether it has ended; and how many have not.
    std::vector<bool> ended;
    size_t left = 0;
  };

  int64_t ActionsOfBody() const {
    int64_t count = 0;
    for (const PreparedAction& action : prepared_->actions) count += action.list == kBodyList;
    return count;
  }

  // The optimizer step with which the repetition begins.
  int64_t StepOf(int64_t repetition) const {
    if (list_ == kBodyList) return first_step_ + (repetition - first_repetition_) * steps_per_repetition_;
    // Rule P14: the prologue is the repetition before the first.
    const bool before = list_ == kPrologueList && program_.steps_per_repetition() > 0;
    return first_step_ - (before ? steps_per_repetition_ : 0);
  }

  std::string Where(const PreparedAction& action, int64_t repetition) const {
    return absl::StrCat("rank ", endpoint_.rank(), ", step ", StepOf(repetition) + action.action->step(), ", action ",
                        action.action->id(), " '", action.action->name(), "'");
  }

  bool VotesLeft() const { return votes_ && next_vote_ + 1 < end_repetition_; }

  absl::Status Drive() {
    // 0: something happened since the last look at the clock.
    int64_t quiet_since = 0;
    bool news = true;
    while (steps_left_ > 0 || VotesLeft() || vote_.active()) {
      bool progress = false;
      if (votes_) {
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
      if (steps_left_ == 0 && !VotesLeft() && !vote_.active()) break;
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
      if (const int group = GroupAtHead(stream, state); group >= 0) {
        WEFT_ASSIGN_OR_RETURN(const bool group_moved, AdvanceGroup(group));
        moved |= group_moved;
        // It goes on behind the group.
        if (!group_moved || GroupAtHead(stream, state) == group) return moved;
        continue;
      }
      if (!state.active) {
        if (!HeadReady(stream, state)) return moved;
        const StreamStep& head = stream.steps[list_][state.position];
        PreparedAction& action = prepared_->actions[head.action];
        state.ready_ns = MonotonicNanoseconds();
        WEFT_RETURN_IF_ERROR(MaybeFail(action, state.repetition));
        if (stream.type == StreamType::kCopy) {
          WEFT_RETURN_IF_ERROR(RunKernel(stream, state, head, action));
          moved = true;
          continue;
        }
        WEFT_RETURN_IF_ERROR(stream.type == StreamType::kCollective
                                 ? stream.communicator->Start(endpoint_, *action.steps[head.step].collective)
                                 : Post(head.action));
        state.active = true;
        moved = true;
      }
      const StreamStep& head = stream.steps[list_][state.position];
      int64_t start_ns = 0, end_ns = 0;
      if (stream.type == StreamType::kCollective) {
        WEFT_ASSIGN_OR_RETURN(const bool done, stream.communicator->Advance(endpoint_));
        if (!done) return moved;
        end_ns = tracing_ ? MonotonicNanoseconds() : 0;
        start_ns = stream.communicator->start_ns();
      } else {
        const Transfer& transfer = transfers_[head.action];
        if (!transfer.done.load(std::memory_order_acquire)) return moved;
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

  absl::Status Post(int index) {
    PreparedAction& action = prepared_->actions[index];
    Transfer& transfer = transfers_[index];
    transfer.data = action.data;
    transfer.bytes = action.bytes;
    transfer.peer = action.peer;
    transfer.channel = action.channel;
    return action.sends ? endpoint_.PostSend(&transfer) : endpoint_.PostRecv(&transfer);
  }

  // The group of transfers that heads the stream, or -1.
  int GroupAtHead(const PreparedStream& stream, const StreamState& state) const {
    const std::vector<StreamStep>& steps = stream.steps[list_];
    if (stream.type != StreamType::kTransfers || steps.empty() || state.repetition >= allowed_) return -1;
    return prepared_->actions[steps[state.position].action].group;
  }

  // Posts the members of a group that is ready, all at once, and looks for those that have ended. A member is not held
  // up by its partner's group: that changes times, never results.
  absl::StatusOr<bool> AdvanceGroup(int index) {
    const PreparedGroup& group = prepared_->groups[index];
    GroupState& state = groups_[index];
    bool moved = false;
    if (!state.posted) {
      const int64_t repetition = streams_[group.streams[0]].repetition;
      for (const int s : group.streams) {
        if (streams_[s].repetition != repetition || GroupAtHead(prepared_->streams[s], streams_[s]) != index) {
          return false;
        }
      }
      for (const int member : group.actions) {
        if (!DependenciesSatisfied(prepared_->actions[member], repetition)) return false;
      }
      const int64_t now = MonotonicNanoseconds();
      state = {.posted = true, .ended = std::vector<bool>(group.actions.size()), .left = group.actions.size()};
      for (const int s : group.streams) {
        streams_[s].active = true;
        streams_[s].ready_ns = now;
      }
      for (const int member : group.actions) {
        WEFT_RETURN_IF_ERROR(MaybeFail(prepared_->actions[member], repetition));
        WEFT_RETURN_IF_ERROR(Post(member));
      }
      moved = true;
    }
    for (size_t i = 0; i < group.actions.size(); ++i) {
      const Transfer& transfer = transfers_[group.actions[i]];
      if (state.ended[i] || !transfer.done.load(std::memory_order_acquire)) continue;
      const int64_t start = std::max(transfer.start_ns, streams_[group.stream_of[i]].ready_ns);
      state.ended[i] = true;
      --state.left;
      moved = true;
      WEFT_RETURN_IF_ERROR(RecordStep(group.stream_of[i], streams_[group.stream_of[i]].repetition,
                                      {.action = group.actions[i], .first = true, .last = true}, start,
                                      std::max(start, transfer.end_ns)));
    }
    if (state.left > 0) return moved;
    // Its streams were held until now.
    state.posted = false;
    for (const int s : group.streams) streams_[s].active = false;
    for (const int s : group.stream_of) NextStep(s);
    unblocked_ = true;
    return true;
  }

  // Runs at most one compute step, so that transfers are looked at between two.
  absl::StatusOr<bool> AdvanceCompute() {
    if (queue_ < 0 && (queue_ = ChooseQueue()) < 0) return false;
    const size_t index = queue_;
    const PreparedStream& stream = prepared_->streams[index];
    StreamState& state = streams_[index];
    if (!state.ready) {
      if (!HeadReady(stream, state)) return false;
      state.ready = true;
      if (options_.slots != nullptr || tracing_) state.ready_ns = MonotonicNanoseconds();
      const StreamStep& head = stream.steps[list_][state.position];
      if (head.first) WEFT_RETURN_IF_ERROR(MaybeFail(prepared_->actions[head.action], state.repetition));
    }
    if (options_.slots != nullptr && !holds_slot_) {
      if (!options_.slots->Acquire(endpoint_.rank(), state.ready_ns)) return false;
      holds_slot_ = true;
    }
    const StreamStep head = stream.steps[list_][state.position];
    state.ready = false;
    const absl::Status status = RunKernel(stream, state, head, prepared_->actions[head.action]);
    // Which action comes next is seen when this one's last step has ended.
    if (prepared_->backward_queue >= 0 && stream.steps[list_][state.position].first) queue_ = -1;
    if (holds_slot_ && !(status.ok() && ComputeReady() && options_.slots->Keep(endpoint_.rank()))) {
      holds_slot_ = false;
      options_.slots->Release(endpoint_.rank());
    }
    WEFT_RETURN_IF_ERROR(status);
    return true;
  }

  // Whether a compute step could run now.
  bool ComputeReady() const {
    if (queue_ < 0) return ChooseQueue() >= 0;
    return HeadReady(prepared_->streams[queue_], streams_[queue_]);
  }

  // Rule P6: which of the two queues runs next, as a stream; -1 if no head is ready.
  int ChooseQueue() const {
    const int backwards = prepared_->backward_queue;
    const bool forward_ready = QueueReady(0, backwards), backward_ready = QueueReady(backwards, 0);
    if (!forward_ready || !backward_ready) return forward_ready ? 0 : backward_ready ? backwards : -1;
    if (program_.compute_order() != ARRIVAL) return backwards;
    return Arrival(0) <= Arrival(backwards) ? 0 : backwards;
  }

  bool QueueReady(int queue, int other) const {
    const PreparedStream& stream = prepared_->streams[queue];
    const StreamState& state = streams_[queue];
    if (!HeadReady(stream, state)) return false;
    const StreamStep& head = stream.steps[list_][state.position];
    if (head.other_position < 0) return true;
    const StreamState& at = streams_[other];
    return std::make_pair(at.repetition, static_cast<int64_t>(at.position)) >=
           std::make_pair(state.repetition + head.other_repetition, static_cast<int64_t>(head.other_position));
  }

  // Whether the head of the queue waited for a RECV, and when what it waited for was finished.
  std::pair<bool, int64_t> Arrival(int queue) const {
    const StreamState& state = streams_[queue];
    const PreparedAction& action = prepared_->actions[prepared_->streams[queue].steps[list_][state.position].action];
    int64_t latest = -1;
    for (const PreparedDependency& dep : action.deps) {
      const PreparedAction& target = prepared_->actions[dep.action];
      if (target.list == action.list && state.repetition < dep.distance) continue;
      latest = std::max(latest, target.finished_ns);
    }
    return {action.awaits_recv, latest};
  }

  absl::Status RunKernel(const PreparedStream& stream, StreamState& state, const StreamStep& head,
                         PreparedAction& action) {
    if (head.first) {
      StepContext& context = action.context;
      context.step = StepOf(state.repetition) + action.action->step();
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
    const absl::Status status = backend_.Run(*step.step, step.inputs, step.outputs, action.context);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(Where(action, state.repetition), ", kernel '", step.step->name(),
                                                      "': ", status.message()));
    }
    return EndStep(&stream - prepared_->streams.data(), head, start_ns, tracing_ ? MonotonicNanoseconds() : 0);
  }

  // Whether the head of the stream waits for nothing any more (rule P2).
  bool HeadReady(const PreparedStream& stream, const StreamState& state) const {
    if (state.repetition >= allowed_ || stream.steps[list_].empty()) return false;
    const StreamStep& head = stream.steps[list_][state.position];
    const PreparedAction& action = prepared_->actions[head.action];
    if (head.first && !DependenciesSatisfied(action, state.repetition)) return false;
    for (int dep : action.steps[head.step].deps) {
      if (action.steps[dep].done <= state.repetition) return false;
    }
    return true;
  }

  bool DependenciesSatisfied(const PreparedAction& action, int64_t repetition) const {
    for (const PreparedDependency& dep : action.deps) {
      if (!Satisfied(action, dep, repetition)) return false;
    }
    return true;
  }

  bool Satisfied(const PreparedAction& action, const PreparedDependency& dep, int64_t repetition) const {
    const PreparedAction& target = prepared_->actions[dep.action];
    int64_t wanted = repetition - dep.distance;
    if (target.list != action.list) {
      // Prologue and epilogue are repetition 0 of their own lists; of the body, the last repetition counts.
      wanted = target.list == kBodyList ? body_repetitions_ - 1 - dep.distance : 0;
    }
    if (target.finished <= wanted) return false;
    return !dep.detached || std::all_of(target.last_detached.begin(), target.last_detached.end(),
                                        [&](int step) { return target.steps[step].done > wanted; });
  }

  absl::Status EndStep(size_t stream_index, const StreamStep& head, int64_t start_ns, int64_t end_ns) {
    const StreamStep step = head;
    const int64_t repetition = streams_[stream_index].repetition;
    NextStep(stream_index);
    return RecordStep(stream_index, repetition, step, start_ns, end_ns);
  }

  void NextStep(size_t stream_index) {
    StreamState& state = streams_[stream_index];
    if (++state.position < prepared_->streams[stream_index].steps[list_].size()) return;
    state.position = 0;
    ++state.repetition;
  }

  absl::Status RecordStep(size_t stream_index, int64_t repetition, const StreamStep& step, int64_t start_ns,
                          int64_t end_ns) {
    PreparedAction& action = prepared_->actions[step.action];
    ++action.steps[step.step].done;
    --steps_left_;
    ++steps_executed_;
    if (tracing_ && (list_ != kBodyList || repetition < options_.trace_repetitions)) {
      // The two queues of compute are one stream to the reader.
      const bool backwards = static_cast<int>(stream_index) == prepared_->backward_queue;
      events_.push_back({repetition, action.action->id(), step.step, backwards ? 0 : static_cast<int32_t>(stream_index),
                         streams_[stream_index].ready_ns, start_ns, end_ns, end_ns});
    }
    unblocked_ |= action.steps[step.step].awaited;
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
        return Finish(action, repetition);
      }
    }
    return absl::OkStatus();
  }

  // The action is finished in `repetition`.
  absl::Status Finish(PreparedAction& action, int64_t repetition) {
    unblocked_ |= action.awaited;
    if (list_ != kBodyList) return absl::OkStatus();
    StepResult* results = &results_[repetition * steps_per_repetition_];
    if (action.writes_losses) {
      for (int64_t u = 0; u < steps_per_repetition_; ++u) {
        results[u].loss = LossOf(u);
        WEFT_RETURN_IF_ERROR(CheckFinite(action, repetition, "the loss", results[u].loss));
      }
    }
    if (action.writes_norm) {
      results->norm = prepared_->norm != nullptr ? *prepared_->norm : std::sqrt(SumOfNorms());
      WEFT_RETURN_IF_ERROR(CheckFinite(action, repetition, "the gradient norm", results->norm));
    }
    if (--left_[repetition - first_repetition_] == 0) {
      const int64_t end_ns = MonotonicNanoseconds();
      for (int64_t u = 0; u < steps_per_repetition_; ++u) {
        StepResult& result = results[u];
        result.step = StepOf(repetition) + u;
        result.learning_rate = LearningRateAt(program_.recipe(), result.step);
        result.end_ns = end_ns;
        result.steps_of_repetition = steps_per_repetition_;
        if (options_.on_step) options_.on_step(result);
      }
    }
    return absl::OkStatus();
  }

  // Of one optimizer step of a repetition: its microbatches follow one another on every data coordinate.
  double LossOf(int64_t step) const {
    const int64_t all = program_.microbatches(), own = all / steps_per_repetition_;
    double sum = 0;
    if (steps_per_repetition_ == 1) {
      for (const double loss : prepared_->losses) sum += loss;
      return sum;
    }
    for (size_t first = step * own; first + own <= prepared_->losses.size(); first += all) {
      for (const double loss : prepared_->losses.subspan(first, own)) sum += loss;
    }
    return sum;
  }

  // In ascending order of the tensors (rule P11).
  double SumOfNorms() const {
    const TensorView& norms = prepared_->norms;
    double sum = 0;
    for (int64_t i = 0; i < norms.shape[0]; ++i) {
      sum += norms.dtype == EXACT192 ? ExactRound(static_cast<const Exact192*>(norms.data)[i], 53)
                                     : static_cast<const double*>(norms.data)[i];
    }
    return sum;
  }

  absl::Status CheckFinite(const PreparedAction& action, int64_t repetition, absl::string_view what, double value) {
    if (!options_.check_finite || std::isfinite(value)) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(Where(action, repetition), ": ", what, " is not finite (", value, ")"));
  }

  absl::Status MaybeFail(const PreparedAction& action, int64_t repetition) {
    if (!options_.failure.has_value()) return absl::OkStatus();
    const InjectedFailure& failure = *options_.failure;
    if (failure.rank != endpoint_.rank() || failure.repetition != repetition || failure.action != action.action->id()) {
      return absl::OkStatus();
    }
    endpoint_.Note(StepOf(repetition) + action.action->step(), action.action->id());
    if (failure.kill) kill(getpid(), SIGKILL);
    return absl::InternalError(absl::StrCat(Where(action, repetition), ": injected failure"));
  }

  // Whether the vote went on: begins one when this rank has finished a repetition after which it does not know yet.
  // That is as late as can be, so that the step during which the run is asked to stop is the last. It costs little: the
  // next step's first action waits for the weights, and with clipping these wait for all ranks' norms anyway.
  absl::StatusOr<bool> AdvanceVote() {
    bool progress = false;
    // A rank without actions still takes part.
    if (!vote_.active() && VotesLeft() && left_[next_vote_ - first_repetition_] == 0) {
      WEFT_RETURN_IF_ERROR(vote_.Start());
    }
    if (vote_.active()) {
      WEFT_ASSIGN_OR_RETURN(progress, vote_.Advance());
      if (progress) {
        ++next_vote_;
        if (vote_.stop()) {
          steps_left_ -= (end_repetition_ - next_vote_) * prepared_->steps_of_list[list_];
          end_repetition_ = next_vote_;
        }
        allowed_ = std::min(end_repetition_, next_vote_ + 1);
      }
    }
    return progress;
  }

  // Nothing has happened on this rank since `since_ns`.
  absl::Status CheckQuiet(int64_t since_ns) {
    Endpoint::LastNote note;
    if (absl::Status status = endpoint_.CheckPeers(&note); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), " in step ", note.step, ", action ",
                                                      note.action, ActionNameOf(note)));
    }
    if (MonotonicNanoseconds() - since_ns < options_.timeout.count()) return absl::OkStatus();
    const double seconds = std::chrono::duration<double>(options_.timeout).count();
    for (size_t i = 0; i < streams_.size(); ++i) {
      const PreparedStream& stream = prepared_->streams[i];
      if (!streams_[i].active) continue;
      int index = stream.steps[list_][streams_[i].position].action;
      if (const int group = prepared_->actions[index].group; group >= 0) {
        const std::vector<bool>& ended = groups_[group].ended;
        index = prepared_->groups[group].actions[std::find(ended.begin(), ended.end(), false) - ended.begin()];
      }
      const PreparedAction& action = prepared_->actions[index];
      const int peer = stream.communicator != nullptr ? stream.communicator->waiting_for() : action.peer;
      return absl::DeadlineExceededError(absl::StrCat(Where(action, streams_[i].repetition), " has waited for rank ",
                                                      peer, " for more than ", seconds, " s"));
    }
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", endpoint_.rank(), ": no progress for more than ", seconds, " s"));
  }

  // " 'F s1 m3'"; empty if the note names no action of this program.
  std::string ActionNameOf(const Endpoint::LastNote& note) const {
    const int index = TemplateOfRank(program_, note.rank);
    if (index < 0) return "";
    const Template& t = program_.templates(index);
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        if (action.id() == note.action) return absl::StrCat(" '", action.name(), "'");
      }
    }
    return "";
  }

  const Program& program_;
  Endpoint& endpoint_;
  Backend& backend_;
  const InterpreterOptions options_;
  std::unique_ptr<PreparedProgram> prepared_;
  StopVote vote_;
  // Optimizer steps, at least 1.
  const int64_t steps_per_repetition_;
  std::vector<StreamState> streams_;
  std::vector<GroupState> groups_;
  // By action, for sends and receives.
  std::unique_ptr<Transfer[]> transfers_ = std::make_unique<Transfer[]>(prepared_->actions.size());
  // The stream that the action being computed is on: 0, or in a message-driven program one of the queues, -1 = none.
  int queue_ = 0;
  bool holds_slot_ = false;
  std::vector<StepResult> results_;
  std::vector<RecordedEvent> events_;
  // Actions of each repetition of this RunList that are not finished.
  std::vector<int64_t> left_;

  ActionList list_ = kBodyList;
  int64_t first_step_ = 0;
  // Repetitions [first, end) of the list; those below `allowed_` may begin.
  int64_t first_repetition_ = 0;
  int64_t end_repetition_ = 0;
  int64_t allowed_ = 0;
  bool tracing_ = false;
  // Whether the ranks vote after each repetition.
  bool votes_ = false;
  // The repetition after which the next vote is.
  int64_t next_vote_ = 0;
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

absl::Status Interpreter::RunEpilogue() { return impl_->RunList(kEpilogueList, 0, 1).status(); }

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
