#include "executor/interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/event_recorder.h"
#include "executor/learning_rate.h"
#include "executor/prepared_program.h"
#include "executor/printed_figures.h"
#include "executor/rank_note.h"
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
        vote_(*endpoint, options.stop),
        steps_per_repetition_(std::max(1, program.steps_per_repetition())),
        vote_lead_(program.post_validation() ? 2 : 1),
        streams_(*prepared_),
        groups_(prepared_->groups.size()) {}

  // Runs `count` more repetitions of a list.
  absl::StatusOr<int64_t> RunList(ActionList list, int64_t first_step, int64_t count) {
    first_repetition_ = list == kBodyList ? body_repetitions_ : list == kEpilogueList ? epilogues_++ : 0;
    end_repetition_ = first_repetition_ + count;
    first_step_ = first_step;
    if (list == kBodyList) {
      results_.resize(results_.size() + count * steps_per_repetition_);
      if (prepared_->loss_scale != nullptr) loss_scale_ = *prepared_->loss_scale;
      left_.assign(count, ActionsOfBody());
    }
    verdicts_.assign(program_.post_validation() ? count : 0, Verdict::kUnknown);
    // Of several epilogues (rule P15) the first.
    tracing_ = options_.trace_repetitions > 0 && (list != kEpilogueList || first_repetition_ == 0);
    if (tracing_) {
      const int64_t traced = list == kBodyList ? options_.trace_repetitions - first_repetition_ : 1;
      events_.Reserve(std::clamp<int64_t>(traced, 0, count) * prepared_->steps_of_list[list]);
    }
    streams_.Begin(list, first_repetition_, body_repetitions_);
    for (GroupState& group : groups_) group = {};
    queue_ = prepared_->backward_queue < 0 ? 0 : -1;
    votes_ = list == kBodyList && options_.stop != nullptr;
    streams_.Allow(votes_ ? std::min(end_repetition_, first_repetition_ + vote_lead_) : end_repetition_);
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

  RankTrace TakeTrace() const { return events_.Trace(*prepared_, endpoint_.rank(), options_.trace_epoch_ns); }

 private:
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
    if (streams_.list() == kBodyList) return first_step_ + (repetition - first_repetition_) * steps_per_repetition_;
    // Rule P14: the prologue is the repetition before the first.
    const bool before = streams_.list() == kPrologueList && program_.steps_per_repetition() > 0;
    return first_step_ - (before ? steps_per_repetition_ : 0);
  }

  std::string Where(const PreparedAction& action, int64_t repetition) const {
    return absl::StrCat("rank ", endpoint_.rank(), ", step ", StepOf(repetition) + action.action->step(), ", action ",
                        action.action->id(), " '", action.action->name(), "'");
  }

  bool VotesLeft() const { return votes_ && next_vote_ + vote_lead_ < end_repetition_; }

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
      const StreamStep& head = streams_.Head(index);
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

  // Posts the members of a group that is ready, all at once, and looks for those that have ended. A member is not held
  // up by its partner's group: that changes times, never results.
  absl::StatusOr<bool> AdvanceGroup(int index) {
    const PreparedGroup& group = prepared_->groups[index];
    GroupState& state = groups_[index];
    bool moved = false;
    if (!state.posted) {
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
      if (head.first) WEFT_RETURN_IF_ERROR(MaybeFail(prepared_->actions[head.action], state.repetition));
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
      context.step = StepOf(state.repetition) + action.action->step();
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
    const absl::Status status = backend_.Run(*step.step, step.inputs, step.outputs, action.context);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(Where(action, state.repetition), ", kernel '", step.step->name(),
                                                      "': ", status.message()));
    }
    return EndStep(&stream - prepared_->streams.data(), head, start_ns, tracing_ ? MonotonicNanoseconds() : 0);
  }

  // Goes over steps at the head of the stream that rule P15 leaves out of the run; whether there were any.
  absl::StatusOr<bool> SkipLeftOut(size_t stream_index) {
    if (verdicts_.empty() || prepared_->streams[stream_index].steps[streams_.list()].empty()) return false;
    const StreamState& state = streams_[stream_index];
    bool skipped = false;
    while (!state.active && state.repetition < streams_.allowed()) {
      const StreamStep head = streams_.Head(stream_index);
      const int64_t repetition = state.repetition;
      if (!prepared_->actions[head.action].action->if_exceeded() ||
          verdicts_[repetition - first_repetition_] != Verdict::kRight) {
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
    ++action.steps[step.step].done;
    --steps_left_;
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
    if (action.action->kind() == VALIDATE) WEFT_RETURN_IF_ERROR(Judge(repetition));
    if (streams_.list() != kBodyList) return absl::OkStatus();
    StepResult* results = &results_[repetition * steps_per_repetition_];
    if (action.writes_losses) {
      for (int64_t u = 0; u < steps_per_repetition_; ++u) {
        results[u].loss = LossOfStep(*prepared_, program_.microbatches(), steps_per_repetition_, u);
        WEFT_RETURN_IF_ERROR(CheckFinite(action, repetition, "the loss", results[u].loss));
      }
    }
    if (action.writes_norm && verdicts_.empty()) {
      results->norm = GradientNorm(*prepared_);
      // Rule P11: a dynamic loss scale was too large, and the optimizer has left everything as it was.
      results->skipped = prepared_->loss_scale != nullptr && !std::isfinite(results->norm);
      if (results->skipped) results->norm = 0;
      WEFT_RETURN_IF_ERROR(CheckFinite(action, repetition, "the gradient norm", results->norm));
    }
    if (action.writes_scale) results->loss_scale = std::exchange(loss_scale_, *prepared_->loss_scale);
    if (--left_[repetition - first_repetition_] == 0) {
      const int64_t end_ns = MonotonicNanoseconds();
      for (int64_t u = 0; u < steps_per_repetition_; ++u) {
        StepResult& result = results[u];
        result.step = StepOf(repetition) + u;
        result.learning_rate = LearningRateAt(program_.recipe(), result.step);
        result.end_ns = end_ns;
        if (prepared_->fixed_loss_scale > 0) result.loss_scale = prepared_->fixed_loss_scale;
        result.steps_of_repetition = steps_per_repetition_;
        if (options_.on_step && verdicts_.empty()) options_.on_step(result);
      }
      ReportValidated();
    }
    return absl::OkStatus();
  }

  // Rule P15: the VALIDATE of a repetition is finished. The repetition before it may have been judged by an epilogue.
  absl::Status Judge(int64_t repetition) {
    const double norm = prepared_->norm[0], factor = prepared_->norm[1];
    const int64_t judged = streams_.list() == kBodyList ? repetition : body_repetitions_;
    if (judged > validated_) {
      validated_ = judged;
      results_[judged - 1].norm = norm;
      if (options_.check_finite && !std::isfinite(norm)) {
        return absl::OutOfRangeError(absl::StrCat("rank ", endpoint_.rank(), ", step ", StepOf(repetition) - 1,
                                                  ": the gradient norm is not finite (", norm, ")"));
      }
    }
    verdicts_[repetition - first_repetition_] = factor < 1 ? Verdict::kWrong : Verdict::kRight;
    unblocked_ = true;
    ReportValidated();
    return absl::OkStatus();
  }

  // Steps are reported in order, when they are over and validated.
  void ReportValidated() {
    for (; reported_ < validated_ && results_[reported_].end_ns > 0; ++reported_) {
      if (options_.on_step) options_.on_step(results_[reported_]);
    }
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
  // next step's first action waits for the weights, and with clipping these wait for all ranks' norms anyway; where
  // they do not (rule P15), the ranks run one repetition further.
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
          const int64_t end = next_vote_ + vote_lead_ - 1;
          steps_left_ -= (end_repetition_ - end) * prepared_->steps_of_list[streams_.list()];
          end_repetition_ = end;
        }
        streams_.Allow(std::min(end_repetition_, next_vote_ + vote_lead_));
      }
    }
    return progress;
  }

  // Nothing has happened on this rank since `since_ns`.
  absl::Status CheckQuiet(int64_t since_ns) {
    Endpoint::LastNote note;
    if (absl::Status status = endpoint_.CheckPeers(&note); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), " in ", DescribeNote(program_, note)));
    }
    if (MonotonicNanoseconds() - since_ns < options_.timeout.count()) return absl::OkStatus();
    const double seconds = std::chrono::duration<double>(options_.timeout).count();
    for (size_t i = 0; i < streams_.size(); ++i) {
      const PreparedStream& stream = prepared_->streams[i];
      if (!streams_[i].active) continue;
      int index = streams_.Head(i).action;
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

  const Program& program_;
  Endpoint& endpoint_;
  Backend& backend_;
  const InterpreterOptions options_;
  std::unique_ptr<PreparedProgram> prepared_;
  StopVote vote_;
  // Optimizer steps, at least 1.
  const int64_t steps_per_repetition_;
  // The vote after a repetition is on the one that comes so many later.
  const int64_t vote_lead_;
  StreamHeads streams_;
  std::vector<GroupState> groups_;
  // By action, for sends and receives.
  std::unique_ptr<Transfer[]> transfers_ = std::make_unique<Transfer[]>(prepared_->actions.size());
  // The stream that the action being computed is on: 0, or in a message-driven program one of the queues, -1 = none.
  int queue_ = 0;
  bool holds_slot_ = false;
  std::vector<StepResult> results_;
  // A dynamic loss scale as it is for the repetition to come.
  double loss_scale_ = 0;
  EventRecorder events_;
  // Of a post-validated program (rule P15), by repetition of this RunList; else empty.
  enum class Verdict : char { kUnknown, kRight, kWrong };
  std::vector<Verdict> verdicts_;
  // Repetitions of the body whose norm is known; that have been reported; and epilogues so far.
  int64_t validated_ = 0;
  int64_t reported_ = 0;
  int64_t epilogues_ = 0;
  // Actions of each repetition of this RunList that are not finished.
  std::vector<int64_t> left_;

  int64_t first_step_ = 0;
  // Repetitions [first, end) of the list.
  int64_t first_repetition_ = 0;
  int64_t end_repetition_ = 0;
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
