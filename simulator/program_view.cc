#include "simulator/program_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

constexpr int kStepStreams = 3;  // compute, d2h, h2d: StreamKind and the first three of StreamClass.
constexpr int64_t kTimeLimit = int64_t{1} << 62;

// What the runs of a segment look like on its streams; shared by all actions of one kind on it.
struct SegmentRuns {
  std::array<Range, kStepStreams> runs;
  std::array<bool, kStepStreams> has_tail = {};
  int32_t named = 0;
  int32_t tails = 0;
  int32_t streams = 0;
};

// Identity of a stream within a template: its class, peer, group, and what else tells it apart.
using StreamKey =
    std::tuple<StreamClass, std::vector<int64_t>, std::vector<std::vector<int64_t>>, int32_t, int32_t, int32_t>;

bool IsTransfer(ActionKind kind) { return kind == SEND || kind == RECV; }
bool IsCompute(ActionKind kind) { return !IsTransfer(kind) && kind != ALL_REDUCE; }
bool IsBackward(ActionKind kind) { return kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT; }
// In both queues of a dynamic order: nothing passes it (rule P6).
bool IsInBothQueues(ActionKind kind) { return kind != FORWARD && !IsBackward(kind); }
int32_t Width(const Action& action) { return std::max(1, action.width()); }

class TemplateBuilder {
 public:
  TemplateBuilder(const Program& program, const Template& t, const StepDurationFn& duration,
                  const ProgramViewOptions& options)
      : program_(program), template_(t), duration_(duration), options_(options) {
    view_.proto = &t;
  }

  absl::StatusOr<TemplateView> Build() {
    AddActions(template_.prologue(), ListKind::kPrologue);
    AddActions(template_.body(), ListKind::kBody);
    AddActions(template_.epilogue(), ListKind::kEpilogue);
    view_.objects = view_.actions.size();
    view_.body_actions = template_.body_size();
    FindGroups();
    for (int32_t i = 0; i < static_cast<int32_t>(view_.actions.size()); ++i) {
      const Action& action = *view_.actions[i].action;
      WEFT_RETURN_IF_ERROR(IsCompute(action.kind()) ? AddComputeAction(i) : AddCommunicationAction(i));
    }
    if (program_.compute_order() != STATIC_ORDER) OrderQueues();
    WEFT_RETURN_IF_ERROR(AddStreams());
    AddHeldActivations();
    WEFT_RETURN_IF_ERROR(AddMemory());
    return std::move(view_);
  }

 private:
  absl::Status Error(const Action& action, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("template '", template_.name(), "' action ", action.id(), " '",
                                                   action.name(), "': ", what, "; was the program verified?"));
  }

  void AddActions(const google::protobuf::RepeatedPtrField<Action>& list, ListKind kind) {
    for (const Action& action : list) {
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

  // Groups of two and more: neighbours with the same number.
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
    WEFT_ASSIGN_OR_RETURN(const SegmentRuns* runs, Runs(action.segment(), action.kind()));
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
    if (runs->streams > 1) view_.actions[index].start_object = view_.objects++;
    for (int stream = 0; stream < kStepStreams; ++stream) {
      if (runs->runs[stream].empty()) continue;
      const auto kind = static_cast<StreamClass>(stream);
      ComputeQueue queue = ComputeQueue::kNone;
      if (kind == StreamClass::kCompute && program_.compute_order() != STATIC_ORDER) {
        queue = IsBackward(action.kind()) ? ComputeQueue::kBackwards : ComputeQueue::kForwards;
      }
      Entry& entry = AddEntry(index, {kind, {}, {}, static_cast<int32_t>(queue), 0, 0});
      entry.runs = runs->runs[stream];
      entry.named_base = named_base;
      if (runs->tails > 1 && runs->has_tail[stream]) entry.tail_object = tail_object++;
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
    if (action.kind() == ALL_REDUCE) {
      AddEntry(index, {StreamClass::kCollective, {}, ResolveGroup(action.group()), action.purpose(), 0, 0});
      return absl::OkStatus();
    }
    const int32_t group = group_of_[index];
    const bool first = group < 0 || index == 0 || group_of_[index - 1] != group;
    ChannelView channel = {.send = action.kind() == SEND,
                           .peer = ResolvePeer(action.peer()),
                           .lane = action.lane(),
                           .direction = action.direction(),
                           .skip = action.skip(),
                           .slot = 0};
    if (first) slots_.clear();
    channel.slot = slots_[channel]++;
    const auto [found, is_new] = channels_.try_emplace(channel, static_cast<int32_t>(view_.channels.size()));
    if (is_new) view_.channels.push_back(channel);
    const StreamKey key = TransferStream(channel);
    if (group < 0) {
      AddEntry(index, key).channel = found->second;
      return absl::OkStatus();
    }
    // Its members are neighbours, on every stream too.
    GroupView& view = view_.groups[group];
    if (first) view.members.begin = view_.group_members.size();
    view_.group_members.push_back({.action = index, .channel = found->second, .stream = -1});
    view.members.end = view_.group_members.size();
    member_streams_.push_back(key);
    std::vector<Entry>& entries = entries_[key];
    if (entries.empty() || entries.back().group != group) AddEntry(index, key).group = group;
    return absl::OkStatus();
  }

  // Rule P3.
  StreamKey TransferStream(const ChannelView& channel) const {
    switch (program_.transfer_streams()) {
      case PER_DIRECTION:
        return {StreamClass::kTransfers, {}, {}, channel.direction, 0, 0};
      case SHARED:
        return {StreamClass::kTransfers, {}, {}, 0, 0, 0};
      default:
        return {channel.send ? StreamClass::kSend : StreamClass::kRecv,
                channel.peer,
                {},
                channel.lane,
                channel.direction,
                channel.skip};
    }
  }

  void CountSteps(int32_t index, int64_t steps) {
    view_.step_count[static_cast<int>(view_.actions[index].list)] += steps;
  }

  int64_t Pin(absl::string_view axis) const {
    for (const Coordinate& pin : template_.pins()) {
      if (pin.axis() == axis) return pin.index();
    }
    return -1;
  }

  // A coordinate that is the rank's own by its pin is written as such, so that one peer has one form.
  std::vector<int64_t> ResolvePeer(const Peer& peer) const {
    std::vector<int64_t> resolved(program_.mesh().axes_size(), -1);
    for (int i = 0; i < program_.mesh().axes_size(); ++i) {
      for (const Coordinate& at : peer.at()) {
        if (at.axis() != program_.mesh().axes(i).name()) continue;
        resolved[i] = at.index() == Pin(at.axis()) ? -1 : at.index();
      }
    }
    return resolved;
  }

  std::vector<std::vector<int64_t>> ResolveGroup(const Group& group) const {
    std::vector<std::vector<int64_t>> resolved(program_.mesh().axes_size());
    for (int i = 0; i < program_.mesh().axes_size(); ++i) {
      const MeshAxis& axis = program_.mesh().axes(i);
      if (axis.size() == 1) continue;
      for (const AxisSubset& subset : group.axes()) {
        if (subset.axis() != axis.name()) continue;
        if (subset.indices_size() == 0 || subset.indices_size() == axis.size()) {
          resolved[i] = {-1};
        } else if (subset.indices_size() > 1 || subset.indices(0) != Pin(axis.name())) {
          resolved[i].assign(subset.indices().begin(), subset.indices().end());
        }
      }
    }
    return resolved;
  }

  // Runs of `segment`, built on first use.
  absl::StatusOr<const SegmentRuns*> Runs(int segment, ActionKind kind) {
    const auto [found, inserted] = runs_.try_emplace({segment, kind});
    SegmentRuns& result = found->second;
    if (!inserted) return &result;

    const Segment& proto = program_.segments(segment);
    const int count = proto.steps_size();
    // Index of each step that another stream waits for, and the last attached step of each stream.
    std::vector<int32_t> named(count, -1);
    std::array<int, kStepStreams> tail = {-1, -1, -1};
    for (int i = 0; i < count; ++i) {
      const Step& step = proto.steps(i);
      if (step.stream() < 0 || step.stream() >= kStepStreams) {
        return absl::InvalidArgumentError(absl::StrCat("segment '", proto.name(), "' step ", i, ": unknown stream ",
                                                       static_cast<int>(step.stream())));
      }
      if (!step.detached()) tail[step.stream()] = i;
      for (const int32_t dep : step.deps()) {
        if (dep < 0 || dep >= i) {
          return absl::InvalidArgumentError(
              absl::StrCat("segment '", proto.name(), "' step ", i, ": dep ", dep, " is not an earlier step"));
        }
        if (proto.steps(dep).stream() != step.stream() && named[dep] < 0) named[dep] = result.named++;
      }
    }
    for (int stream = 0; stream < kStepStreams; ++stream) {
      result.tails += tail[stream] >= 0;
      result.has_tail[stream] = tail[stream] >= 0;
      result.runs[stream].begin = view_.runs.size();
      bool open = false;
      for (int i = 0; i < count; ++i) {
        const Step& step = proto.steps(i);
        if (step.stream() != stream) continue;
        Range waits = {.begin = static_cast<int32_t>(view_.run_waits.size()), .end = 0};
        for (const int32_t dep : step.deps()) {
          if (proto.steps(dep).stream() != step.stream()) view_.run_waits.push_back(named[dep]);
        }
        waits.end = view_.run_waits.size();
        if (!open || !waits.empty() || !options_.join_steps) {
          const int32_t first = view_.steps.size();
          view_.runs.push_back(
              {.duration_ps = 0, .steps = {first, first}, .waits = waits, .signal = -1, .is_tail = false});
        }
        WEFT_ASSIGN_OR_RETURN(const Time duration, duration_(segment, i, kind));
        Run& run = view_.runs.back();
        view_.steps.push_back({.step = i, .duration_ps = duration.ps});
        run.steps.end = view_.steps.size();
        run.duration_ps += std::min(duration.ps, kTimeLimit - run.duration_ps);
        run.signal = named[i];
        run.is_tail = i == tail[stream];
        open = run.signal < 0 && !run.is_tail;
      }
      result.runs[stream].end = view_.runs.size();
      result.streams += !result.runs[stream].empty();
    }
    return &result;
  }

  std::string StreamName(const StreamKey& key) const {
    const auto& [kind, peer, group, first, second, third] = key;
    const auto direction = [](int32_t value) {
      return absl::AsciiStrToLower(Direction_Name(static_cast<Direction>(value)));
    };
    std::vector<std::string> parts;
    switch (kind) {
      case StreamClass::kCompute:
        return "compute";
      case StreamClass::kD2h:
        return "d2h";
      case StreamClass::kH2d:
        return "h2d";
      case StreamClass::kSend:
      case StreamClass::kRecv:
        parts.push_back(kind == StreamClass::kSend ? "send" : "recv");
        for (size_t i = 0; i < peer.size(); ++i) {
          if (peer[i] >= 0) parts.push_back(absl::StrCat(program_.mesh().axes(i).name(), "=", peer[i]));
        }
        parts.push_back(direction(second));
        parts.push_back(absl::StrCat("lane ", first));
        if (third > 0) parts.push_back(absl::StrCat("skip ", third));
        break;
      case StreamClass::kTransfers:
        parts.push_back("p2p");
        if (first != 0) parts.push_back(direction(first));
        break;
      case StreamClass::kCollective:
        parts.push_back("all_reduce");
        for (size_t i = 0; i < group.size(); ++i) {
          if (group[i].empty()) continue;
          const std::string& axis = program_.mesh().axes(i).name();
          parts.push_back(group[i].front() < 0 ? axis : absl::StrCat(axis, "={", absl::StrJoin(group[i], ","), "}"));
        }
        parts.push_back(absl::AsciiStrToLower(Purpose_Name(static_cast<Purpose>(first))));
        break;
    }
    return absl::StrJoin(parts, " ");
  }

  // Streams in the order of their keys; their entries, with waits, in list order.
  absl::Status AddStreams() {
    for (auto& [key, entries] : entries_) {
      StreamView stream;
      stream.kind = std::get<0>(key);
      stream.group = std::get<2>(key);
      if (stream.kind == StreamClass::kCompute) stream.queue = static_cast<ComputeQueue>(std::get<3>(key));
      if (stream.kind == StreamClass::kCollective) stream.purpose = static_cast<Purpose>(std::get<3>(key));
      for (size_t i = 0; i < member_streams_.size(); ++i) {
        if (member_streams_[i] == key) view_.group_members[i].stream = static_cast<int32_t>(view_.streams.size());
      }
      stream.name = StreamName(key);
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
    if (stream.queue != ComputeQueue::kNone) {
      const std::vector<Wait>& ordering = ordering_[entry.action];
      view_.waits.insert(view_.waits.end(), ordering.begin(), ordering.end());
      entry.end_object = end_object_[entry.action];
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
      view_.actions[index].awaits_recv |= view_.actions[target].action->kind() == RECV;
      if (ImpliedByStream(target, entry, dep.distance(), stream)) continue;
      view_.waits.push_back({.object = target,
                             .distance = dep.distance(),
                             .body = view_.actions[target].list == ListKind::kBody,
                             .ordering = false});
    }
    return absl::OkStatus();
  }

  // Whether the action `target` is an earlier one that ends on the entry's own stream. In a queue the times of all
  // dependencies count.
  bool ImpliedByStream(int32_t target, const Entry& entry, int32_t distance, const StreamView& stream) const {
    const ActionView& action = view_.actions[target];
    const int kind = static_cast<int>(stream.kind);
    if (kind >= kStepStreams || !IsCompute(action.action->kind()) || action.tails != 1) return false;
    if (stream.queue != ComputeQueue::kNone || (target >= entry.action && distance == 0)) return false;
    const SegmentRuns& runs = runs_.at({action.action->segment(), action.action->kind()});
    return runs.has_tail[kind];
  }

  // An action that is in both queues waits for all backwards before it, which come in order: for the last one. A
  // backward waits for the last such action before it. Before the first of the body come the last of the repetition
  // before and the last of the prologue, before the first of the epilogue the last of the body and, if that has none,
  // of the prologue.
  void OrderQueues() {
    ordering_.resize(view_.actions.size());
    end_object_.assign(view_.actions.size(), -1);
    // Compute actions by list: backwards, and those in both queues.
    std::array<std::array<std::vector<int32_t>, 2>, 3> actions;
    for (int32_t i = 0; i < static_cast<int32_t>(view_.actions.size()); ++i) {
      const ActionView& action = view_.actions[i];
      const ActionKind kind = action.action->kind();
      if (!IsCompute(kind) || kind == FORWARD || !OnCompute(*action.action)) continue;
      actions[static_cast<int>(action.list)][IsInBothQueues(kind)].push_back(i);
    }
    for (int list = 0; list < 3; ++list) {
      for (const bool both : {false, true}) {
        for (const int32_t action : actions[list][both]) {
          // Of the other sort, what stands before it.
          const auto wait_for_last = [&](int other_list, int32_t before, int32_t distance) {
            const std::vector<int32_t>& others = actions[other_list][!both];
            const auto end = std::lower_bound(others.begin(), others.end(), before);
            if (end == others.begin()) return false;
            const int32_t target = *(end - 1);
            if (end_object_[target] < 0) end_object_[target] = view_.objects++;
            ordering_[action].push_back({.object = end_object_[target],
                                         .distance = distance,
                                         .body = other_list == static_cast<int>(ListKind::kBody),
                                         .ordering = true});
            return true;
          };
          const int32_t all = static_cast<int32_t>(view_.actions.size());
          if (wait_for_last(list, action, 0)) continue;
          if (list == 1) wait_for_last(1, all, 1);
          if (list == 2 && wait_for_last(1, all, 0)) continue;
          if (list > 0) wait_for_last(0, all, 0);
        }
      }
    }
  }

  bool OnCompute(const Action& action) const {
    for (const Step& step : program_.segments(action.segment()).steps()) {
      if (step.stream() == COMPUTE) return true;
    }
    return false;
  }

  // As the timing of a schedule counts activations: of a stage and microbatch from the start of its forward to the end
  // of its backward, or of the weight half of that.
  void AddHeldActivations() {
    using Key = std::tuple<int32_t, int32_t, int32_t>;  // lane, stage, microbatch
    std::map<Key, std::pair<int32_t, int32_t>> wide;    // width, object
    for (ActionView& view : view_.actions) {
      const Action& action = *view.action;
      if (action.kind() != FORWARD && action.kind() != FORWARD_BACKWARD) continue;
      view.holds = Width(action);
      if (view.holds == 1) continue;
      const int32_t object = view_.objects++;
      for (int32_t i = 0; i < view.holds; ++i) {
        wide[{action.lane(), action.stage(), action.microbatch() + i}] = {view.holds, object};
      }
    }
    for (ActionView& view : view_.actions) {
      const Action& action = *view.action;
      Key key = {action.lane(), action.stage(), action.microbatch()};
      if (action.kind() == FORWARD_BACKWARD) {
        key = {action.backward().lane(), action.backward().stage(), action.backward().microbatch()};
      } else if (action.kind() != BACKWARD && action.kind() != BACKWARD_WEIGHT) {
        continue;
      }
      view.unholds = 1;
      const auto found = wide.find(key);
      if (found == wide.end()) continue;
      std::tie(view.unholds, view.held_object) = found->second;
    }
  }

  // The buffers that come to life or die with an action are added up per class.
  absl::Status AddMemory() {
    std::vector<ClassSizes> allocates(view_.actions.size());
    std::vector<ClassSizes> frees(view_.actions.size());
    // First writers of the current list.
    std::vector<bool> written(template_.buffers_size(), false);
    ListKind list = ListKind::kPrologue;
    absl::Status status;
    for (size_t i = 0; i < view_.actions.size(); ++i) {
      if (view_.actions[i].list != list) written.assign(written.size(), false);
      list = view_.actions[i].list;
      const Action& action = *view_.actions[i].action;
      const auto change = [&](int32_t buffer, bool write) {
        if (buffer < 0 || buffer >= template_.buffers_size()) {
          status.Update(Error(action, absl::StrCat("buffer ", buffer, " does not exist")));
          return;
        }
        const Buffer& proto = template_.buffers(buffer);
        if (proto.persistent() || proto.place() != DEVICE || (write && written[buffer])) return;
        if (proto.class_() < 0 || proto.class_() >= kBufferClasses) {
          status.Update(Error(action, absl::StrCat("buffer ", buffer, " has an unknown class")));
          return;
        }
        if (write) written[buffer] = true;
        (write ? allocates : frees)[i][proto.class_()] += proto.bytes();
      };
      if (IsCompute(action.kind())) {
        const Segment& segment = program_.segments(action.segment());
        if (action.operands_size() != segment.operands_size()) {
          return Error(action, absl::StrCat("it binds ", action.operands_size(), " buffers to ",
                                            segment.operands_size(), " operands"));
        }
        for (int k = 0; k < action.operands_size(); ++k) {
          if (segment.operands(k).access() != READ) change(action.operands(k), /*write=*/true);
        }
      }
      for (const int32_t buffer : action.destinations()) change(buffer, /*write=*/true);
      for (const int32_t buffer : action.releases()) change(buffer, /*write=*/false);
    }
    WEFT_RETURN_IF_ERROR(status);
    for (size_t i = 0; i < view_.actions.size(); ++i) {
      view_.actions[i].allocates = AddChanges(allocates[i]);
      view_.actions[i].frees = AddChanges(frees[i]);
    }
    for (const Buffer& buffer : template_.buffers()) {
      if (buffer.persistent() && buffer.place() == DEVICE && buffer.class_() >= 0 && buffer.class_() < kBufferClasses) {
        view_.persistent[buffer.class_()] += buffer.bytes();
      }
    }
    return absl::OkStatus();
  }

  Range AddChanges(const ClassSizes& sizes) {
    Range range = {.begin = static_cast<int32_t>(view_.memory.size()), .end = 0};
    for (int c = 0; c < kBufferClasses; ++c) {
      if (sizes[c] != 0) view_.memory.push_back({.buffer_class = static_cast<BufferClass>(c), .bytes = sizes[c]});
    }
    range.end = view_.memory.size();
    return range;
  }

  const Program& program_;
  const Template& template_;
  const StepDurationFn& duration_;
  const ProgramViewOptions& options_;
  TemplateView view_;
  absl::flat_hash_map<int32_t, int32_t> index_of_id_;
  std::map<std::pair<int, ActionKind>, SegmentRuns> runs_;
  std::map<StreamKey, std::vector<Entry>> entries_;
  std::map<ChannelView, int32_t> channels_;
  // Of the current group: its members of each channel so far.
  std::map<ChannelView, int32_t> slots_;
  // By action: the group of a transfer, or -1; of queues, what keeps them in order.
  std::vector<int32_t> group_of_;
  std::vector<std::vector<Wait>> ordering_;
  std::vector<int32_t> end_object_;
  // By TemplateView::group_members.
  std::vector<StreamKey> member_streams_;
};

}  // namespace

absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepDurationFn& duration,
                                             const ProgramViewOptions& options) {
  ProgramView view;
  view.program = &program;
  for (const Template& t : program.templates()) {
    WEFT_ASSIGN_OR_RETURN(TemplateView built, TemplateBuilder(program, t, duration, options).Build());
    view.templates.push_back(std::move(built));
  }
  const int64_t ranks = MeshRanks(program.mesh());
  view.template_of_rank.reserve(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int t = TemplateOfRank(program, rank);
    if (t < 0) {
      return absl::InvalidArgumentError(absl::StrCat("no template matches rank ", rank, "; was the program verified?"));
    }
    view.template_of_rank.push_back(t);
  }
  return view;
}

}  // namespace weft
