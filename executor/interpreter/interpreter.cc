#include "executor/interpreter/interpreter.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/interpreter/interpreter_impl.h"
#include "executor/interpreter/named_action.h"
#include "executor/program/program_edges.h"
#include "executor/program/step_runs.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr auto kLongestSleep = std::chrono::milliseconds(200);
// Time between two polls of a busy asynchronous device: an eighth of the time waited so far, within these bounds.
constexpr auto kShortestPoll = std::chrono::microseconds(10);
constexpr auto kLongestPoll = std::chrono::milliseconds(1);
constexpr uint32_t kStepsBetweenPolls = 64;

// Describes the last note of a rank that died, for example "step 3, action 7 'F s1 m3'", without the name if the
// program has no such action.
std::string DescribeNote(const Program& program, const Endpoint::LastNote& note) {
  std::string text = absl::StrCat("step ", note.step, ", action ", note.action);
  const int index = TemplateOfRank(program, note.rank);
  if (index < 0) return text;
  const Template& t = program.templates(index);
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      if (action.id() == note.action) return absl::StrCat(text, " '", action.name(), "'");
    }
  }
  return text;
}

}  // namespace

absl::Status Interpreter::Impl::Prepare(ComputeDevice& device) {
  WEFT_ASSIGN_OR_RETURN(runs_, PrepareStepRuns(*prepared_, backend_));
  if (!device.asynchronous()) return absl::OkStatus();
  if (options_.slots != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("compute slots are not supported on device '", device.name(), "'"));
  }
  WEFT_RETURN_IF_ERROR(ConnectEdges(*prepared_, endpoint_));
  WEFT_ASSIGN_OR_RETURN(device_, DeviceRun::Create(*prepared_, device, results_, events_));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Interpreter::Impl::RunList(ActionList list, int64_t first_step, int64_t count) {
  first_repetition_ = list == kBodyList ? body_repetitions_ : list == kEpilogueList ? epilogues_++ : 0;
  const int64_t end = first_repetition_ + count;
  WEFT_ASSIGN_OR_RETURN(const double loss_scale, LossScale());
  results_.Begin(list, first_step, first_repetition_, count, loss_scale);
  reported_iterations_ = first_repetition_;
  if (list == kBodyList) left_.assign(count, ActionsOfBody());
  // Only the first of several epilogues (rule P15) is traced.
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
  SetAllowedEnd();
  steps_left_ = prepared_->steps_of_list[list] * count;
  WEFT_RETURN_IF_ERROR(Drive());
  const int64_t ran = votes_.end() - first_repetition_;
  if (list == kBodyList) {
    body_repetitions_ += ran;
    results_.End(body_repetitions_);
  }
  return ran;
}

absl::StatusOr<bool> Interpreter::Impl::VoteNow() {
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

absl::StatusOr<bool> Interpreter::Impl::Sleep(int64_t quiet_since) {
  std::chrono::nanoseconds longest = kLongestSleep;
  if (device_ != nullptr) {
    // The device does not wake the interpreter, so it is polled again and again.
    const std::chrono::nanoseconds waited(MonotonicNanoseconds() - quiet_since);
    longest = std::clamp<std::chrono::nanoseconds>(waited / 8, kShortestPoll, kLongestPoll);
  }
  return endpoint_.WaitForProgress(longest);
}

absl::StatusOr<bool> Interpreter::Impl::PollDevice() {
  if (device_ == nullptr) return false;
  WEFT_ASSIGN_OR_RETURN(const bool any, device_->Collect());
  if (any) {
    // More repetitions may begin now, and verdicts may be known.
    unblocked_ = true;
    SetAllowedEnd();
    if (streams_.list() == kBodyList && options_.deadlines != nullptr) {
      for (; reported_iterations_ < device_->over(); ++reported_iterations_)
        options_.deadlines->RepetitionIsOver(MonotonicNanoseconds());
    }
  }
  return any;
}

absl::Status Interpreter::Impl::Drive() {
  // Start of the time without progress; 0 = the last round made progress.
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
    // While something makes progress all the time, the device is polled only every kStepsBetweenPolls rounds.
    if (!progress || ++since_look_ % kStepsBetweenPolls == 0) {
      WEFT_ASSIGN_OR_RETURN(const bool looked, PollDevice());
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

absl::StatusOr<bool> Interpreter::Impl::AdvanceVote() {
  const int64_t next = votes_.next();
  if (next >= 0 && left_[next - first_repetition_] == 0) WEFT_RETURN_IF_ERROR(votes_.Start());
  const int64_t end = votes_.end();
  WEFT_ASSIGN_OR_RETURN(const bool over, votes_.Advance());
  steps_left_ -= (end - votes_.end()) * prepared_->steps_of_list[streams_.list()];
  SetAllowedEnd();
  return over;
}

absl::Status Interpreter::Impl::CheckQuiet(int64_t& since_ns) {
  Endpoint::LastNote note;
  if (absl::Status status = endpoint_.CheckPeers(&note); !status.ok()) {
    return ErrorAtAction(status.code(), absl::StrCat(status.message(), " in ", DescribeNote(program_, note)));
  }
  const int64_t quiet_ns = MonotonicNanoseconds() - since_ns;
  const auto seconds = [](std::chrono::nanoseconds deadline) {
    return std::chrono::duration<double>(deadline).count();
  };
  const bool hurried = options_.deadlines != nullptr && options_.deadlines->hurried();
  const std::chrono::nanoseconds of_waiting =
      options_.deadlines != nullptr ? options_.deadlines->WaitDeadline() : options_.timeout;
  if (device_ != nullptr && quiet_ns >= of_waiting.count() / 2) {
    if (std::exchange(asked_in_, since_ns) != since_ns) WEFT_RETURN_IF_ERROR(device_->MarkProgress());
    if (quiet_ns < of_waiting.count()) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(const bool progressed, device_->MadeProgress());
    if (progressed) {
      since_ns += quiet_ns;
      return absl::OkStatus();
    }
    WEFT_ASSIGN_OR_RETURN(const std::optional<DeviceStreams::Unfinished> unfinished, device_->FindUnfinished());
    if (unfinished.has_value()) {
      const int index = unfinished->action;
      const std::chrono::nanoseconds deadline =
          std::max(of_waiting, options_.deadlines != nullptr ? options_.deadlines->WaitDeadlineIn(index) : of_waiting);
      if (quiet_ns < deadline.count()) return absl::OkStatus();
      const PreparedAction& action = prepared_->actions[index];
      return ErrorAtAction(
          absl::StatusCode::kDeadlineExceeded,
          absl::StrCat(results_.Where(action, unfinished->repetition), " has not ended on the device for more than ",
                       seconds(deadline), " s",
                       action.peer < 0 ? ""
                                       : absl::StrCat("; its partner is rank ", action.peer, " on '",
                                                      prepared_->streams[action.steps[0].stream].name, "'")));
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
        options_.deadlines != nullptr ? options_.deadlines->WaitDeadlineIn(index) : options_.timeout;
    if (quiet_ns < deadline.count()) continue;
    const PreparedAction& action = prepared_->actions[index];
    const int peer = stream.communicator != nullptr ? stream.communicator->waiting_for() : action.peer;
    return ErrorAtAction(absl::StatusCode::kDeadlineExceeded,
                         absl::StrCat(results_.Where(action, streams_[i].repetition), " has waited for rank ", peer,
                                      " on '", stream.name, "' for more than ", seconds(deadline), " s",
                                      hurried ? "; the run was asked to stop, and the step is lost" : ""));
  }
  // A prediction may give transfers and collectives that are under way more time than the deadline for waiting.
  if (AnyActive() || quiet_ns < of_waiting.count()) return absl::OkStatus();
  if (const int peer = votes_.vote().waiting_for(); peer >= 0) {
    return absl::DeadlineExceededError(absl::StrCat("rank ", endpoint_.rank(), " has waited for rank ", peer,
                                                    " to end its step for more than ", seconds(of_waiting), " s"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", endpoint_.rank(), ": no progress for more than ", seconds(of_waiting), " s"));
}

Interpreter::Interpreter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Interpreter::~Interpreter() = default;

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Create(const Program& program, Endpoint* endpoint,
                                                                 Backend* backend, const Arena* arena,
                                                                 const InterpreterOptions& options) {
  WEFT_ASSIGN_OR_RETURN(auto prepared, PrepareProgram(program, *endpoint, *arena));
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
  // Rule P1: with a barrier, no rank begins a repetition before all have finished the previous one. Nothing overlaps,
  // so the ranks vote before each repetition.
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

}  // namespace weft::exec
