#include "simulator/metrics/trace_index.h"

#include <algorithm>
#include <set>

#include "proto/util/mesh.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

int64_t PairKey(int32_t first, int32_t second) { return (int64_t{first} << 32) | static_cast<uint32_t>(second); }

}  // namespace

TraceIndex::TraceIndex(const ProgramView& view, const EngineResult& result, int32_t repetitions)
    : view_(view),
      result_(result),
      repetitions_(repetitions),
      ranks_(view.template_of_rank.size()),
      templates_(view.templates.size()) {}

TraceIndex::TemplateIndex& TraceIndex::Template(int32_t t) {
  TemplateIndex& index = templates_[t];
  if (index.built) return index;
  index.built = true;
  const TemplateView& view = view_.templates[t];
  index.channel_of.assign(view.actions.size(), -1);
  for (size_t s = 0; s < view.streams.size(); ++s) {
    for (const Range& entries : view.streams[s].entries) {
      for (int32_t e = entries.begin; e < entries.end; ++e) {
        const Entry& entry = view.entries[e];
        if (entry.group < 0) {
          index.entry_of[PairKey(s, entry.action)] = e;
          index.channel_of[entry.action] = entry.channel;
          continue;
        }
        const Range& members = view.groups[entry.group].members;
        for (int32_t i = members.begin; i < members.end; ++i) {
          const GroupMember& member = view.group_members[i];
          if (member.stream != static_cast<int32_t>(s)) continue;
          index.entry_of[PairKey(s, member.action)] = e;
          index.channel_of[member.action] = member.channel;
        }
      }
    }
  }
  return index;
}

TraceIndex::RankIndex& TraceIndex::Rank(int32_t rank) {
  RankIndex& index = ranks_[rank];
  if (!index.built) Build(rank, index);
  return index;
}

int32_t& TraceIndex::CompletedBy(const TemplateView& t, RankIndex& index, int32_t object, int32_t repetition) const {
  if (index.completed_by.empty()) index.completed_by.assign(int64_t{t.objects} * repetitions_, -1);
  return index.completed_by[int64_t{object} * repetitions_ + repetition];
}

void TraceIndex::Build(int32_t rank, RankIndex& index) {
  index.built = true;
  const TemplateView& t = TemplateOf(rank);
  TemplateIndex& of_template = Template(view_.template_of_rank[rank]);
  const std::vector<EngineEvent>& events = result_.ranks[rank].events;
  index.places.resize(events.size());
  index.of_channel.resize(t.channels.size());
  index.of_stream.resize(t.streams.size());
  // For each stream: the last event, and the position of that event's step in its run.
  std::vector<int32_t> last(t.streams.size(), -1), step(t.streams.size(), 0);
  int32_t last_compute = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(events.size()); ++i) {
    const EngineEvent& event = events[i];
    Place& place = index.places[i];
    const int32_t previous = std::exchange(last[event.stream], i);
    const bool compute = t.streams[event.stream].key.kind == StreamClass::kCompute;
    // The two compute queues of a rank are one stream (rule P6).
    place.before = compute ? std::exchange(last_compute, i) : previous;
    place.entry = of_template.entry_of.at(PairKey(event.stream, event.action));
    const Entry& entry = t.entries[place.entry];
    const auto complete = [&](int32_t object) {
      int32_t& by = CompletedBy(t, index, object, event.repetition);
      if (by < 0 || events[by].finish <= event.finish) by = i;
    };
    if (entry.runs.empty()) {
      const int32_t channel = of_template.channel_of[event.action];
      place.number = static_cast<int32_t>(index.of_channel[channel].size());
      index.of_channel[channel].push_back(i);
      if (entry.group >= 0) index.of_group[PairKey(entry.group, event.repetition)].push_back(i);
      complete(event.action);
      continue;
    }
    place.number = static_cast<int32_t>(index.of_stream[event.stream].size());
    index.of_stream[event.stream].push_back(i);
    const bool goes_on =
        previous >= 0 && index.places[previous].entry == place.entry && events[previous].repetition == event.repetition;
    place.run = goes_on ? index.places[previous].run : entry.runs.begin;
    step[event.stream] = goes_on ? step[event.stream] + 1 : t.runs[place.run].steps.begin;
    if (step[event.stream] == t.runs[place.run].steps.end) {
      ++place.run;
      step[event.stream] = t.runs[place.run].steps.begin;
    }
    const Run& run = t.runs[place.run];
    if (step[event.stream] + 1 < run.steps.end) continue;
    if (run.signal >= 0) complete(entry.named_base + run.signal);
    if (run.is_tail) complete(event.action);
  }
}

int32_t TraceIndex::RepetitionOf(const Entry& entry, const EngineEvent& event) const {
  return entry.list == ListKind::kEpilogue ? repetitions_ - 1 : event.repetition;
}

std::vector<TracedStep> TraceIndex::GroupOf(TracedStep step) {
  RankIndex& index = Rank(step.rank);
  const Entry& entry = TemplateOf(step.rank).entries[index.places[step.event].entry];
  if (entry.group < 0) return {step};
  std::vector<TracedStep> members;
  for (const int32_t event : index.of_group.at(PairKey(entry.group, At(step).repetition))) {
    members.push_back({step.rank, event});
  }
  return members;
}

void TraceIndex::AddStreamBefore(TracedStep step, std::vector<Cause>& causes) {
  const std::vector<Place>& places = Rank(step.rank).places;
  const Entry& entry = TemplateOf(step.rank).entries[places[step.event].entry];
  int32_t before = places[step.event].before;
  // Members of one group are neighbors on the stream.
  while (entry.group >= 0 && before >= 0 && places[before].entry == places[step.event].entry &&
         At({step.rank, before}).repetition == At(step).repetition) {
    before = places[before].before;
  }
  if (before < 0) return;
  // A group holds its streams until its last member has ended.
  for (const TracedStep& member : GroupOf({step.rank, before})) causes.push_back({member, /*finish=*/false});
}

void TraceIndex::AddWaits(TracedStep step, const Entry& entry, std::vector<Cause>& causes) {
  const TemplateView& t = TemplateOf(step.rank);
  RankIndex& index = Rank(step.rank);
  const int32_t own = RepetitionOf(entry, At(step));
  for (int32_t i = entry.waits.begin; i < entry.waits.end; ++i) {
    const Wait& wait = t.waits[i];
    const int32_t repetition = (wait.body ? own : 0) - wait.distance;
    // Skips waits that only keep queues in order: AddStreamBefore covers them with the rank's previous computation.
    if (wait.ordering || repetition < 0) continue;
    const int32_t by = CompletedBy(t, index, wait.object, repetition);
    if (by >= 0) causes.push_back({{step.rank, by}, /*finish=*/true});
  }
}

void TraceIndex::AddBarrier(const EngineEvent& event, std::vector<Cause>& causes) {
  for (int32_t rank = 0; rank < static_cast<int32_t>(ranks_.size()); ++rank) {
    const TemplateView& t = TemplateOf(rank);
    RankIndex& index = Rank(rank);
    for (int32_t action = 0; action < static_cast<int32_t>(t.actions.size()); ++action) {
      if (t.actions[action].list != ListKind::kBody) continue;
      const int32_t by = CompletedBy(t, index, action, event.repetition - 1);
      if (by >= 0) causes.push_back({{rank, by}, /*finish=*/true});
    }
  }
}

std::vector<Cause> TraceIndex::BeforeReady(TracedStep step) {
  std::vector<Cause> causes;
  const TemplateView& t = TemplateOf(step.rank);
  RankIndex& index = Rank(step.rank);
  // A transfer waits for everything that any member of its group waits for.
  const std::vector<TracedStep> members = GroupOf(step);
  std::set<int32_t> entries;
  for (const TracedStep& member : members) {
    if (entries.insert(index.places[member.event].entry).second) AddStreamBefore(member, causes);
  }
  const Place& place = index.places[step.event];
  const bool first = t.entries[place.entry].runs.empty() || place.run == t.entries[place.entry].runs.begin;
  const bool joined = place.run >= 0 && place.before >= 0 && index.places[place.before].run == place.run &&
                      index.places[place.before].entry == place.entry &&
                      At({step.rank, place.before}).repetition == At(step).repetition;
  // Within a run each step waits only for the step before it.
  if (joined) return causes;
  if (first) {
    for (const int32_t entry : entries) AddWaits(step, t.entries[entry], causes);
  }
  if (place.run >= 0) {
    const Run& run = t.runs[place.run];
    for (int32_t i = run.waits.begin; i < run.waits.end; ++i) {
      const int32_t object = t.entries[place.entry].named_base + t.run_waits[i].named;
      const int32_t by = CompletedBy(t, index, object, At(step).repetition);
      if (by >= 0) causes.push_back({{step.rank, by}, /*finish=*/true});
    }
  }
  const bool body = t.entries[place.entry].list == ListKind::kBody;
  if (first && body && view_.program->step_barrier() && At(step).repetition > 0) AddBarrier(At(step), causes);
  return causes;
}

int64_t TraceIndex::PeerOf(int64_t rank, const ChannelView& channel) const {
  std::vector<int64_t> coordinates = RankCoordinates(view_.program->mesh(), rank);
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (channel.peer[i] >= 0) coordinates[i] = channel.peer[i];
  }
  return CoordinatesRank(view_.program->mesh(), coordinates);
}

TracedStep TraceIndex::PartnerOf(TracedStep step) {
  const TemplateIndex& of_template = Template(view_.template_of_rank[step.rank]);
  const ChannelView& own = TemplateOf(step.rank).channels[of_template.channel_of[At(step).action]];
  const int32_t peer = static_cast<int32_t>(PeerOf(step.rank, own));
  const std::vector<ChannelView>& channels = TemplateOf(peer).channels;
  const int32_t number = Rank(step.rank).places[step.event].number;
  for (size_t c = 0; c < channels.size(); ++c) {
    const ChannelView& other = channels[c];
    if (other.send == own.send || other.lane != own.lane || other.direction != own.direction ||
        other.skip != own.skip || other.slot != own.slot || PeerOf(peer, other) != step.rank) {
      continue;
    }
    const std::vector<int32_t>& events = Rank(peer).of_channel[c];
    if (number < static_cast<int32_t>(events.size())) return {peer, events[number]};
  }
  return {};
}

const std::vector<std::pair<int32_t, int32_t>>& TraceIndex::Members(int32_t rank, int32_t stream) {
  const auto [found, is_new] = members_.try_emplace({rank, stream});
  if (!is_new) return found->second;
  const Mesh& mesh = view_.program->mesh();
  const StreamKey& key = TemplateOf(rank).streams[stream].key;
  const std::vector<int64_t> members = FormMembers(mesh, rank, key.group);
  for (const int64_t member : members) {
    const std::vector<StreamView>& streams = TemplateOf(static_cast<int32_t>(member)).streams;
    for (size_t s = 0; s < streams.size(); ++s) {
      const StreamKey& other = streams[s].key;
      // Templates with other pins may write the same group in another way.
      if (other.kind != StreamClass::kCollective || other.purpose != key.purpose) continue;
      if (other.group != key.group && FormMembers(mesh, member, other.group) != members) continue;
      found->second.push_back({static_cast<int32_t>(member), static_cast<int32_t>(s)});
      break;
    }
  }
  return found->second;
}

std::vector<TracedStep> TraceIndex::StartsWith(TracedStep step) {
  std::vector<TracedStep> all = {step};
  const StreamView& stream = StreamOf(step);
  if (stream.key.kind == StreamClass::kCollective) {
    const int32_t number = Rank(step.rank).places[step.event].number;
    for (const auto& [rank, s] : Members(step.rank, At(step).stream)) {
      const std::vector<int32_t>& events = Rank(rank).of_stream[s];
      if (rank != step.rank && number < static_cast<int32_t>(events.size())) all.push_back({rank, events[number]});
    }
    return all;
  }
  if (!IsTransfer(ActionOf(step).action->kind())) return all;
  // The partners of all members of both groups.
  const TracedStep partner = PartnerOf(step);
  for (const TracedStep& side : {step, partner}) {
    if (side.rank < 0) continue;
    for (const TracedStep& member : GroupOf(side)) {
      const TracedStep other = PartnerOf(member);
      if (other.rank >= 0) all.push_back(other);
    }
  }
  return all;
}

std::optional<TracedStep> TraceIndex::FreedSlot(TracedStep step, const EngineOptions& options) const {
  const Time start = At(step).start;
  const auto node_of = [&](int64_t rank) {
    return options.node_of_rank.empty() ? rank / std::max<int64_t>(options.devices_per_node, 1)
                                        : options.node_of_rank[rank];
  };
  for (int64_t rank = 0; rank < static_cast<int64_t>(ranks_.size()); ++rank) {
    if (node_of(rank) != node_of(step.rank)) continue;
    const std::vector<EngineEvent>& events = result_.ranks[rank].events;
    // Events are in order of start.
    auto event = std::lower_bound(events.begin(), events.end(), start,
                                  [](const EngineEvent& e, Time time) { return e.start < time; });
    while (event != events.begin()) {
      --event;
      if (TemplateOf(static_cast<int32_t>(rank)).streams[event->stream].key.kind != StreamClass::kCompute) continue;
      // A rank runs one compute step at a time, so only the last one that began before `start` can matter.
      if (event->end == start) {
        return TracedStep{static_cast<int32_t>(rank), static_cast<int32_t>(event - events.begin())};
      }
      break;
    }
  }
  return std::nullopt;
}

}  // namespace weft::sim
