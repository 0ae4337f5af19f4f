#include "simulator/program/program_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/program/joined_steps.h"
#include "simulator/program/queue_order.h"
#include "simulator/program/segment_runs.h"
#include "simulator/program/templates_of_ranks.h"
#include "simulator/program/view_actions.h"
#include "simulator/program/view_calls.h"
#include "simulator/program/view_memory.h"

namespace weft::sim {
namespace {

class TemplateBuilder {
 public:
  TemplateBuilder(const Program& program, const Template& t, int32_t device, const StepCostsFn& costs,
                  const ProgramViewOptions& options)
      : program_(program), template_(t), costs_(costs), options_(options), joined_(program, t, Joins(device, options)) {
    view_.proto = &t;
    view_.device = device;
  }

  absl::StatusOr<TemplateView> Build() {
    AddActions(template_.prologue(), ListKind::kPrologue);
    AddActions(template_.body(), ListKind::kBody);
    AddActions(template_.epilogue(), ListKind::kEpilogue);
    view_.objects = view_.actions.size();
    FindGroups();
    named_base_.assign(view_.actions.size(), 0);
    ranges_.assign(view_.actions.size(), -1);
    for (int32_t i = 0; i < static_cast<int32_t>(view_.actions.size()); ++i) {
      const Action& action = *view_.actions[i].action;
      WEFT_RETURN_IF_ERROR(IsCompute(action.kind()) ? AddComputeAction(i) : AddCommunicationAction(i));
    }
    if (program_.compute_order() != STATIC_ORDER) order_ = OrderQueues(program_, view_);
    WEFT_RETURN_IF_ERROR(AddStreams());
    AddHeldActivations(view_);
    WEFT_RETURN_IF_ERROR(AddMemory(program_, view_));
    view_.ranges = joined_.TakeLists();
    return std::move(view_);
  }

 private:
  static bool Joins(int32_t device, const ProgramViewOptions& options) {
    return static_cast<size_t>(device) < options.joins_on_device.size() && options.joins_on_device[device];
  }

  absl::Status Error(const Action& action, absl::string_view what) const { return ViewError(template_, action, what); }

  void AddActions(const google::protobuf::RepeatedPtrField<Action>& list, ListKind kind) {
    // The last VALIDATE of the list so far; -1 = none.
    int32_t validate = -1;
    for (const Action& action : list) {
      // Rule P15: the action is left out, and actions that depend on it depend on VALIDATE instead.
      if (action.if_exceeded() && !options_.exceeded) {
        index_of_id_[action.id()] = validate;
        continue;
      }
      if (action.kind() == VALIDATE) validate = static_cast<int32_t>(view_.actions.size());
      view_.body_actions += kind == ListKind::kBody;
      index_of_id_[action.id()] = static_cast<int32_t>(view_.actions.size());
      view_.actions.push_back({.action = &action,
                               .list = kind,
                               .tails = 0,
                               .tail_objects = {},
                               .start_object = -1,
                               .holds = 0,
                               .unholds = 0,
                               .held_object = -1,
                               .awaits_recv = false,
                               .allocates = {},
                               .frees = {}});
    }
  }

  // Finds groups of at least two transfers: neighbors in the same list with the same transfer_group, other than 0.
  void FindGroups() {
    group_of_.assign(view_.actions.size(), -1);
    for (size_t i = 1; i < view_.actions.size(); ++i) {
      const ActionView& before = view_.actions[i - 1];
      const ActionView& own = view_.actions[i];
      if (!IsTransfer(own.action->kind()) || !IsTransfer(before.action->kind()) || own.list != before.list ||
          own.action->transfer_group() == 0 || own.action->transfer_group() != before.action->transfer_group()) {
        continue;
      }
      if (group_of_[i - 1] < 0) {
        group_of_[i - 1] = static_cast<int32_t>(view_.groups.size());
        view_.groups.emplace_back();
      }
      group_of_[i] = group_of_[i - 1];
    }
  }

  absl::Status AddComputeAction(int32_t index) {
    const Action& action = *view_.actions[index].action;
    if (action.segment() < 0 || action.segment() >= program_.segments_size()) {
      return Error(action, absl::StrCat("segment ", action.segment(), " does not exist"));
    }
    ranges_[index] = joined_.IndexOf(action);
    WEFT_ASSIGN_OR_RETURN(const SegmentRuns* runs, Runs(index));
    if (runs->tails == 0) return Error(action, "its segment has no step that is not detached, so it never finishes");
    view_.actions[index].tails = runs->tails;
    const int32_t named_base = view_.objects;
    view_.objects += runs->named;
    int32_t tail_object = -1;
    if (runs->tails > 1) {
      tail_object = view_.objects;
      view_.objects += runs->tails;
      view_.actions[index].tail_objects = {tail_object, view_.objects};
    }
    if (runs->streams.size() > 1) view_.actions[index].start_object = view_.objects++;
    named_base_[index] = named_base;
    for (const SegmentStream& stream : runs->streams) {
      StreamKey key = stream.key;
      if (key.kind == StreamClass::kCompute && program_.compute_order() != STATIC_ORDER) {
        key.queue = IsBackward(action.kind()) ? ComputeQueue::kBackwards : ComputeQueue::kForwards;
      }
      Entry& entry = AddEntry(index, key);
      entry.runs = stream.runs;
      entry.named_base = named_base;
      if (runs->tails > 1 && stream.has_tail) entry.tail_object = tail_object++;
    }
    CountSteps(index, program_.segments(action.segment()).steps_size());
    return absl::OkStatus();
  }

  Entry& AddEntry(int32_t index, const StreamKey& key) {
    Entry& entry = entries_[key].emplace_back();
    entry.action = index;
    entry.list = view_.actions[index].list;
    return entry;
  }

  absl::Status AddCommunicationAction(int32_t index) {
    const Action& action = *view_.actions[index].action;
    view_.actions[index].tails = 1;
    CountSteps(index, 1);
    if (IsCollective(action.kind())) {
      StreamKey key = CollectiveStream(program_.mesh(), template_, action.group(), action.purpose());
      if (options_.communicators_by_stage && action.purpose() == GRADIENT_SYNC) key.stage = action.stage();
      Entry& entry = AddEntry(index, key);
      WEFT_ASSIGN_OR_RETURN(entry.runs, AddActionRun(action));
      return absl::OkStatus();
    }
    const int32_t group = group_of_[index];
    const bool first = group < 0 || index == 0 || group_of_[index - 1] != group;
    ChannelView channel = {.send = action.kind() == SEND,
                           .peer = ResolvePeer(program_.mesh(), template_, action.peer()),
                           .lane = action.lane(),
                           .direction = action.direction(),
                           .skip = action.skip(),
                           .slot = 0};
    if (first) slots_.clear();
    channel.slot = slots_[channel]++;
    const auto [found, is_new] = channels_.try_emplace(channel, static_cast<int32_t>(view_.channels.size()));
    if (is_new) view_.channels.push_back(channel);
    const StreamKey key = TransferStream(program_.transfer_streams(), channel);
    if (group < 0) {
      AddEntry(index, key).channel = found->second;
      return absl::OkStatus();
    }
    // The members of a group are neighbors on every stream too, so each stream gets one entry for the group.
    GroupView& view = view_.groups[group];
    if (first) view.members.begin = view_.group_members.size();
    view_.group_members.push_back({.action = index, .channel = found->second, .stream = -1});
    view.members.end = view_.group_members.size();
    member_streams_.push_back(key);
    std::vector<Entry>& entries = entries_[key];
    if (entries.empty() || entries.back().group != group) AddEntry(index, key).group = group;
    return absl::OkStatus();
  }

  // Adds a collective action as a single run.
  absl::StatusOr<Range> AddActionRun(const Action& action) {
    Run run;
    WEFT_ASSIGN_OR_RETURN(run.collective, AddActionCall(action, view_));
    run.steps.begin = static_cast<int32_t>(view_.steps.size());
    view_.steps.push_back({});
    run.steps.end = static_cast<int32_t>(view_.steps.size());
    run.is_tail = true;
    view_.runs.push_back(run);
    const int32_t end = static_cast<int32_t>(view_.runs.size());
    return Range{end - 1, end};
  }

  void CountSteps(int32_t index, int64_t steps) {
    view_.step_count[static_cast<int>(view_.actions[index].list)] += steps;
  }

  // Returns the runs of a compute action's segment, built on first use.
  absl::StatusOr<const SegmentRuns*> Runs(int32_t index) {
    const Action& action = *view_.actions[index].action;
    const std::tuple<int, ActionKind, int32_t> key = {action.segment(), action.kind(), ranges_[index]};
    const auto found = runs_.find(key);
    if (found != runs_.end()) return &found->second;
    const std::vector<StepRange>* ranges = ranges_[index] < 0 ? nullptr : joined_.List(ranges_[index]);
    WEFT_ASSIGN_OR_RETURN(const SegmentRuns built,
                          BuildSegmentRuns(program_, action.segment(), action.kind(), ranges, costs_, options_, view_));
    return &runs_.emplace(key, built).first->second;
  }

  // Adds streams in the order of their keys. The entries of a stream, with their waits, are in list order.
  absl::Status AddStreams() {
    for (auto& [key, entries] : entries_) {
      StreamView stream;
      stream.key = key;
      for (size_t i = 0; i < member_streams_.size(); ++i) {
        if (member_streams_[i] == key) view_.group_members[i].stream = static_cast<int32_t>(view_.streams.size());
      }
      stream.name = StreamName(program_.mesh(), key);
      const int32_t base = view_.entries.size();
      int32_t end = base;
      for (int list = 0; list < 3; ++list) {
        stream.entries[list].begin = end;
        while (end - base < static_cast<int32_t>(entries.size()) &&
               static_cast<int>(entries[end - base].list) == list) {
          ++end;
        }
        stream.entries[list].end = end;
      }
      for (Entry& entry : entries) {
        WEFT_RETURN_IF_ERROR(AddWaits(stream, entry));
        view_.entries.push_back(entry);
      }
      view_.streams.push_back(std::move(stream));
    }
    for (GroupView& group : view_.groups) {
      group.streams.begin = view_.group_streams.size();
      std::set<int32_t> streams;
      for (int32_t i = group.members.begin; i < group.members.end; ++i) streams.insert(view_.group_members[i].stream);
      view_.group_streams.insert(view_.group_streams.end(), streams.begin(), streams.end());
      group.streams.end = view_.group_streams.size();
    }
    return absl::OkStatus();
  }

  absl::Status AddWaits(const StreamView& stream, Entry& entry) {
    entry.waits.begin = view_.waits.size();
    if (entry.group < 0) {
      WEFT_RETURN_IF_ERROR(AddWaitsOf(entry.action, stream, entry));
    } else {
      const GroupView& group = view_.groups[entry.group];
      for (int32_t i = group.members.begin; i < group.members.end; ++i) {
        const GroupMember& member = view_.group_members[i];
        if (member.stream != static_cast<int32_t>(view_.streams.size())) continue;
        WEFT_RETURN_IF_ERROR(AddWaitsOf(member.action, stream, entry));
      }
    }
    if (stream.key.queue != ComputeQueue::kNone) {
      const std::vector<Wait>& ordering = order_.waits[entry.action];
      view_.waits.insert(view_.waits.end(), ordering.begin(), ordering.end());
      entry.end_object = order_.end_object[entry.action];
    }
    entry.waits.end = view_.waits.size();
    return absl::OkStatus();
  }

  absl::Status AddWaitsOf(int32_t index, const StreamView& stream, const Entry& entry) {
    const Action& action = *view_.actions[index].action;
    for (const Dependency& dep : action.deps()) {
      const auto found = index_of_id_.find(dep.action());
      if (found == index_of_id_.end()) return Error(action, absl::StrCat("it waits for unknown action ", dep.action()));
      if (dep.distance() < 0) return Error(action, absl::StrCat("distance ", dep.distance(), " is negative"));
      const int32_t target = found->second;
      if (target < 0) return Error(action, absl::StrCat("action ", dep.action(), " has no VALIDATE before it"));
      view_.actions[index].awaits_recv |= view_.actions[target].action->kind() == RECV;
      Wait wait = {.object = target,
                   .distance = dep.distance(),
                   .body = view_.actions[target].list == ListKind::kBody,
                   .ordering = false,
                   .reason = Reason(target)};
      if (!ImpliedByStream(target, entry, dep.distance(), stream)) view_.waits.push_back(wait);
      const SegmentRuns* runs = RunsOf(target);
      if (!dep.detached() || runs == nullptr) continue;
      for (const RunWait& detached : runs->detached) {
        wait.object = named_base_[target] + detached.named;
        wait.reason = detached.reason;
        view_.waits.push_back(wait);
      }
    }
    return absl::OkStatus();
  }

  // Returns the runs of a compute action, null for any other action.
  const SegmentRuns* RunsOf(int32_t index) const {
    const Action& action = *view_.actions[index].action;
    if (!IsCompute(action.kind())) return nullptr;
    return &runs_.at({action.segment(), action.kind(), ranges_[index]});
  }

  // Returns why a compute stream that waits for the action is idle.
  IdleReason Reason(int32_t index) const {
    const ActionView& view = view_.actions[index];
    const Action& action = *view.action;
    if (action.kind() == SEND) return IdleReason::kBufferReuse;
    if (action.kind() == RECV) {
      return action.direction() == FROM_LOSS ? IdleReason::kGradientInput : IdleReason::kForwardInput;
    }
    if (IsCollective(action.kind())) return CollectiveReason(action.purpose());
    // If the order is chosen at run time, a rank idles for a computation of its own only when the limit on microbatches
    // in flight holds a forward back.
    if (program_.compute_order() != STATIC_ORDER && view.start_object < 0) return IdleReason::kInFlightLimit;
    return RunsOf(index)->reason;
  }

  // True if the action `target` comes earlier and ends on the entry's own stream, so that the stream's order already
  // implies the wait. Never true in a queue, where the times of all dependencies count.
  bool ImpliedByStream(int32_t target, const Entry& entry, int32_t distance, const StreamView& stream) const {
    const SegmentRuns* runs = RunsOf(target);
    if (runs == nullptr || view_.actions[target].tails != 1 || entry.runs.empty()) return false;
    if (stream.key.queue != ComputeQueue::kNone || (target >= entry.action && distance == 0)) return false;
    // A step that ends on a communicator is finished later, so the order of its stream implies nothing.
    return std::any_of(runs->streams.begin(), runs->streams.end(), [&](const SegmentStream& own) {
      return own.has_tail && own.key.kind == stream.key.kind && own.key.kind != StreamClass::kCollective;
    });
  }

  const Program& program_;
  const Template& template_;
  const StepCostsFn& costs_;
  const ProgramViewOptions& options_;
  TemplateView view_;
  absl::flat_hash_map<int32_t, int32_t> index_of_id_;
  // Runs by segment, kind and list of joined steps (as in ranges_).
  std::map<std::tuple<int, ActionKind, int32_t>, SegmentRuns> runs_;
  std::map<StreamKey, std::vector<Entry>> entries_;
  std::map<ChannelView, int32_t> channels_;
  // For the current group: number of members on each channel so far.
  std::map<ChannelView, int32_t> slots_;
  // Group of each action that is a transfer in a group, else -1.
  std::vector<int32_t> group_of_;
  JoinedSteps joined_;
  // For each compute action, index of its joined steps in view_.ranges, or -1.
  std::vector<int32_t> ranges_;
  // For each compute action, the object of its first named step, that is, of its first step that others wait for.
  std::vector<int32_t> named_base_;
  QueueOrder order_;
  // Stream of each of TemplateView::group_members.
  std::vector<StreamKey> member_streams_;
};

bool Slows(const TemplateView& t) {
  return std::any_of(t.steps.begin(), t.steps.end(),
                     [](const StepRef& step) { return step.cost_ps.back() > step.cost_ps.front(); });
}

}  // namespace

absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepCostsFn& costs,
                                             const ProgramViewOptions& options) {
  ProgramView view;
  view.program = &program;
  view.template_of_rank = TemplatesOfRanks(program);
  const int64_t ranks = static_cast<int64_t>(view.template_of_rank.size());
  for (const size_t given : {options.device_of_rank.size(), options.speed_of_rank.size()}) {
    if (given == 0 || static_cast<int64_t>(given) == ranks) continue;
    return absl::InvalidArgumentError(absl::StrCat("devices of ", given, " ranks are given, the program has ", ranks));
  }
  view.speed_of_rank = options.speed_of_rank;
  // Index of the view by (template, kind of devices).
  std::map<std::pair<int32_t, int32_t>, int32_t> index;
  for (int32_t t = 0; t < program.templates_size(); ++t) {
    if (options.device_of_rank.empty()) index[{t, 0}] = 0;
  }
  for (int64_t rank = 0; rank < static_cast<int64_t>(options.device_of_rank.size()); ++rank) {
    index[{view.template_of_rank[rank], options.device_of_rank[rank]}] = 0;
  }
  for (auto& [key, own] : index) {
    if (key.first < 0) continue;
    own = static_cast<int32_t>(view.templates.size());
    WEFT_ASSIGN_OR_RETURN(TemplateView built,
                          TemplateBuilder(program, program.templates(key.first), key.second, costs, options).Build());
    view.slows |= Slows(built);
    view.templates.push_back(std::move(built));
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    int32_t& own = view.template_of_rank[rank];
    if (own < 0) {
      return absl::InvalidArgumentError(absl::StrCat("no template matches rank ", rank, "; was the program verified?"));
    }
    own = options.device_of_rank.empty() ? own : index[{own, options.device_of_rank[rank]}];
  }
  return view;
}

absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepDurationFn& duration,
                                             const ProgramViewOptions& options) {
  const StepCostsFn costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    WEFT_ASSIGN_OR_RETURN(const Time time, duration(use.segment, use.step, use.kind));
    return LoadTimes{time, time, time};
  };
  return BuildProgramView(program, costs, options);
}

}  // namespace weft::sim
