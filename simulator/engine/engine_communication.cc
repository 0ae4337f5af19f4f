// Transfers, their groups, and collectives (rule P4).
#include "absl/container/inlined_vector.h"
#include "simulator/engine/engine_impl.h"

namespace weft::sim {

void Engine::SideReady(int32_t c, const ChannelEnd& end, bool send) {
  Channel& channel = links_.channels[c];
  (send ? channel.send : channel.recv) = end;
  const ChannelEnd& partner = send ? channel.recv : channel.send;
  if (!partner.ready) return;
  if (partner.group >= 0 && --groups_[partner.group].partners_missing == 0) Open(partner.group);
  StartTransfer(c);
}

void Engine::GroupReady(int32_t g) {
  GroupState& group = groups_[g];
  const TemplateView& t = *ranks_[group.rank].t;
  if (++group.streams_ready < group.view->streams.end - group.view->streams.begin) return;
  group.running = group.view->members.end - group.view->members.begin;
  group.partners_missing = 0;
  for (int32_t i = group.view->streams.begin; i < group.view->streams.end; ++i) {
    streams_[ranks_[group.rank].streams + t.group_streams[i]].ready = now_;
  }
  const auto channel_of = [&](const GroupMember& member) { return ChannelOf(ranks_[group.rank], member.channel); };
  for (int32_t i = group.view->members.begin; i < group.view->members.end; ++i) {
    const GroupMember& member = t.group_members[i];
    const Channel& channel = links_.channels[channel_of(member)];
    group.partners_missing += !(t.channels[member.channel].send ? channel.recv : channel.send).ready;
  }
  if (group.partners_missing == 0) group.open = true;
  for (int32_t i = group.view->members.begin; i < group.view->members.end; ++i) {
    const GroupMember& member = t.group_members[i];
    SideReady(channel_of(member), {true, ranks_[group.rank].streams + member.stream, member.action, g},
              t.channels[member.channel].send);
  }
}

void Engine::Open(int32_t g) {
  GroupState& group = groups_[g];
  group.open = true;
  for (int32_t i = group.view->members.begin; i < group.view->members.end; ++i) {
    StartTransfer(ChannelOf(ranks_[group.rank], ranks_[group.rank].t->group_members[i].channel));
  }
}

void Engine::StartTransfer(int32_t c) {
  Channel& channel = links_.channels[c];
  if (!MayStart(channel.send) || !MayStart(channel.recv)) return;
  channel.send.ready = channel.recv.ready = false;
  const StreamState& send = streams_[channel.send.stream];
  const StreamState& recv = streams_[channel.recv.stream];
  const Action& action = *send.t->actions[channel.send.action].action;
  const int64_t bytes = send.t->proto->buffers(action.sources(0)).bytes();
  const Flow* flow = nullptr;
  if (shares_links_) {
    const absl::StatusOr<const Flow*> found =
        flow_table_.TransferFlow(network_, c, channel.source, channel.destination, bytes);
    status_.Update(found.status());
    if (found.ok()) channel.time = {{}, (flow = *found)->latency};
  } else {
    status_.Update(SetTransferTime(network_, bytes, &channel));
  }
  const TransferTime time = channel.time;
  if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
  StartAction(send, channel.send.action);
  StartAction(recv, channel.recv.action);
  StartCommunication(send, channel.send.action, /*step=*/0, {time.occupancy, {}});
  StartCommunication(recv, channel.recv.action, /*step=*/0, time);
  if (flow != nullptr) return BeginFlow(*flow, /*collective=*/false, c, {channel.send.stream, channel.recv.stream});
  Push(time.occupancy.ps, EventKind::kTransferEnd, c);
}

void Engine::StartCollective(int32_t c) {
  Communicator& communicator = links_.communicators[c];
  if (communicator.ready < communicator.needed) return;
  communicator.ready = 0;
  const StreamState& first = streams_[communicator.streams.front()];
  const int32_t call = first.t->runs[first.run].collective;
  const Flow* flow = nullptr;
  if (shares_links_) {
    const absl::StatusOr<const Flow*> found =
        flow_table_.CollectiveFlow(network_, c, call, first.t->collectives[call], communicator);
    status_.Update(found.status());
    if (found.ok()) communicator.time = {{}, (flow = *found)->latency};
  } else {
    status_.Update(SetCollectiveTime(network_, first.t->collectives[call], call, &communicator));
  }
  const TransferTime time = communicator.time;
  if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
  for (const int32_t s : communicator.streams) {
    const StreamState& stream = streams_[s];
    const Entry& entry = Head(stream);
    if (stream.run == entry.runs.begin) StartAction(stream, entry.action);
    if (stretches_on_ && view_.slows) DisturbStretch(s);
    ChangeCollectives(stream.rank, +1);
    if (stretches_on_) {
      const RankState& rank = ranks_[stream.rank];
      if (rank.recording >= 0 && rank.stretch_collective == s) Note(rank, {.kind = StretchNote::kStartCollective});
    }
    StartCommunication(stream, entry.action, stream.t->steps[stream.t->runs[stream.run].steps.begin].step, time);
  }
  if (flow != nullptr) return BeginFlow(*flow, /*collective=*/true, c, communicator.streams);
  Push(time.occupancy.ps, EventKind::kCollectiveEnd, c);
}

void Engine::StartCommunication(const StreamState& stream, int32_t action, int32_t step, TransferTime time) {
  ranks_[stream.rank].meter.ChangeCommunication(now_, +1);
  ++ranks_[stream.rank].steps;
  if (!options_.trace) return;
  const Time end = {now_ + time.occupancy.ps};
  result_.ranks[stream.rank].events.push_back({.repetition = OwnRepetition(stream),
                                               .action = action,
                                               .step = step,
                                               .stream = static_cast<int32_t>(stream.view - stream.t->streams.data()),
                                               .ready = {stream.ready},
                                               .start = {now_},
                                               .end = end,
                                               .finish = end + time.latency});
}

void Engine::EndTransfer(int32_t c) {
  // EndSide may make the next transfer of the channel ready, which overwrites the channel. So copy the channel first.
  const ChannelEnd send = links_.channels[c].send;
  const ChannelEnd recv = links_.channels[c].recv;
  const Time latency = links_.channels[c].time.latency;
  EndSide(send, Time{});
  EndSide(recv, latency);
}

void Engine::EndSide(const ChannelEnd& end, Time latency) {
  if (end.group < 0) return EndCommunication(end.stream, latency);
  GroupState& group = groups_[end.group];
  FinishCommunication(group.rank, end.action, latency);
  if (--group.running > 0) return;
  group.open = false;
  group.streams_ready = 0;
  const RankState& rank = ranks_[group.rank];
  const Range streams = group.view->streams;
  for (int32_t i = streams.begin; i < streams.end; ++i) {
    NextEntry(streams_[rank.streams + rank.t->group_streams[i]], /*first=*/false);
  }
  for (int32_t i = streams.begin; i < streams.end; ++i) TryReady(rank.streams + rank.t->group_streams[i]);
}

void Engine::EndCommunication(int32_t s, Time latency) {
  StreamState& stream = streams_[s];
  const int32_t action = Head(stream).action;
  NextEntry(stream, /*first=*/false);
  FinishCommunication(stream.rank, action, latency);
  TryReady(s);
}

void Engine::FinishCommunication(int32_t rank, int32_t action, Time latency) {
  if (latency.ps > 0) return Push(latency.ps, EventKind::kTransferFinish, rank, action);
  ranks_[rank].meter.ChangeCommunication(now_, -1);
  FinishAction(rank, action);
}

void Engine::EndCollective(int32_t c) {
  Communicator& communicator = links_.communicators[c];
  for (const int32_t s : communicator.streams) {
    ChangeCollectives(streams_[s].rank, -1);
    communicator.ended.push_back({streams_[s].entry, streams_[s].run});
    Advance(streams_[s]);
  }
  if (communicator.time.latency.ps > 0) {
    Push(communicator.time.latency.ps, EventKind::kCollectiveFinish, c);
  } else {
    FinishCollective(c);
  }
  for (const int32_t s : communicator.streams) TryReady(s);
}

void Engine::FinishCollective(int32_t c) {
  Communicator& communicator = links_.communicators[c];
  // FinishRun may end and finish other collectives of this communicator. So copy and remove the runs of this one first.
  const size_t members = communicator.streams.size();
  absl::InlinedVector<EndedRun, 16> finished(communicator.ended.begin(), communicator.ended.begin() + members);
  communicator.ended.erase(communicator.ended.begin(), communicator.ended.begin() + members);
  for (size_t i = 0; i < members; ++i) {
    const StreamState& stream = streams_[communicator.streams[i]];
    RankState& rank = ranks_[stream.rank];
    rank.meter.ChangeCommunication(now_, -1);
    if (stretches_on_ && rank.recording >= 0 && rank.stretch_collective == communicator.streams[i]) {
      Note(rank, {.kind = StretchNote::kFinishCollective});
    }
    FinishRun(stream.rank, stream.t->entries[finished[i].entry], stream.t->runs[finished[i].run]);
  }
}

}  // namespace weft::sim
