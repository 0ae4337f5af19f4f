#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/engine/engine_impl.h"

namespace weft::sim {
namespace {

// Maximum bytes of the simulation's state. With more, the machine could run out of memory in the middle of the
// simulation.
constexpr int64_t kMaxStateBytes = int64_t{1} << 32;
// Approximate bytes of a rank's result and its part of a report.
constexpr int64_t kResultBytes = sizeof(RankResult) + 1024;
// Approximate bytes of a stream in Links.
constexpr int64_t kLinkBytes = 128;

}  // namespace

absl::Status Engine::Prepare() {
  if (!rank_links_.simulated_as.empty() && (slots_.limited() || options_.jitter.any())) {
    return absl::InvalidArgumentError("ranks with compute slots or jitter do not behave alike, but they were folded");
  }
  const int64_t ranks = rank_links_.ranks.size();
  int64_t total = 0, streams = 0, groups = 0;
  for (const LinkedRank& rank : rank_links_.ranks) {
    const TemplateView& t = view_.templates[view_.template_of_rank[rank.rank]];
    total += t.objects;
    streams += t.streams.size();
    groups += t.groups.size();
  }
  keeps_times_ = view_.program->compute_order() == ARRIVAL;
  const int64_t times = keeps_times_ ? total * int64_t{options_.repetitions} : 0;
  const int64_t bytes = total * (sizeof(counts_[0]) + sizeof(waiters_[0])) +
                        streams * (sizeof(StreamState) + kLinkBytes) + groups * sizeof(GroupState) +
                        times * sizeof(finish_times_[0]) + ranks * sizeof(RankState) +
                        static_cast<int64_t>(view_.template_of_rank.size()) * kResultBytes;
  // The limit on bytes also keeps the indices of objects within int32.
  if (bytes > kMaxStateBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the program has ", total, " actions and awaited steps over ",
                                                     ranks, " ranks; simulating them takes ", bytes >> 20,
                                                     " MiB of memory; allowed: ", kMaxStateBytes >> 20, " MiB"));
  }
  if (options_.trace) WEFT_RETURN_IF_ERROR(CheckTraceSize(view_, options_.repetitions));
  ranks_.reserve(ranks);
  streams_.reserve(streams);
  groups_.reserve(groups);
  finish_times_.assign(times, 0);
  result_.ranks.resize(ranks);
  remaining_.assign(options_.repetitions, 0);
  counts_.assign(total, 0);
  waiters_.assign(total, -1);
  int32_t objects = 0;
  int64_t finish_times = 0;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const LinkedRank& link = rank_links_.ranks[rank];
    const TemplateView& t = view_.templates[view_.template_of_rank[link.rank]];
    RankState& state = ranks_.emplace_back(RankMeter(t.persistent, &result_.ranks[rank]));
    state.t = &t;
    state.number = link.rank;
    state.stands_for = link.stands_for;
    if (!view_.speed_of_rank.empty()) state.speed = view_.speed_of_rank[link.rank];
    state.objects = objects;
    state.streams = static_cast<int32_t>(streams_.size());
    state.sides = link.first_side;
    state.groups = static_cast<int32_t>(groups_.size());
    state.finish_times = finish_times;
    if (keeps_times_) finish_times += int64_t{t.objects} * options_.repetitions;
    for (const GroupView& group : t.groups) {
      groups_.emplace_back();
      groups_.back().view = &group;
      groups_.back().rank = rank;
    }
    for (int64_t& remaining : remaining_) remaining += t.body_actions;
    for (const StreamView& view : t.streams) {
      const int32_t s = streams_.size();
      StreamState& stream = streams_.emplace_back();
      stream.t = &t;
      stream.view = &view;
      stream.rank = rank;
      stream.objects = objects;
      stream.kind = view.key.kind;
      stream.queue = view.key.queue;
      if (view.key.queue != ComputeQueue::kNone) state.queues[view.key.queue == ComputeQueue::kBackwards] = s;
      stream.communicator = rank_links_.streams[s];
    }
    objects += t.objects;
  }
  return absl::OkStatus();
}

absl::Status CheckTraceSize(const ProgramView& view, int64_t repetitions) {
  int64_t once = 0, each = 0;
  for (const int32_t t : view.template_of_rank) {
    const std::array<int64_t, 3>& count = view.templates[t].step_count;
    once += count[0] + count[2];
    each += count[1];
  }
  const int64_t most = each == 0 ? 0 : std::max<int64_t>(0, kMaxTraceSteps - once) / each;
  if (once <= kMaxTraceSteps && (each == 0 || repetitions <= most)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a trace of ", repetitions, repetitions == 1 ? " repetition" : " repetitions", " over ",
                   view.template_of_rank.size(), " ranks has more than ", kMaxTraceSteps, " steps; ",
                   most < 1 ? std::string("this program cannot be traced") : absl::StrCat("nearest valid: ", most)));
}

}  // namespace weft::sim
