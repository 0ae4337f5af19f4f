// Transfers, their groups, and collectives (rule P4).
#include "simulator/engine_impl.h"

namespace weft {

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
  const auto channel_of = [&](const GroupMember& member) {
    return channels_[ranks_[group.rank].channels + member.channel];
  };
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
    StartTransfer(channels_[ranks_[group.rank].channels + ranks_[group.rank].t->group_members[i].channel]);
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
  status_.Update(SetTransferTime(network_, send.rank, recv.rank, bytes, &channel));
  const TransferTime time = channel.time;
  if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
  StartCommunication(send, channel.send.action, time.occupancy, Time{});
  StartCommunication(recv, channel.recv.action, time.occupancy, time.latency);
  Push(time.occupancy.ps, EventKind::kTransferEnd, c);
}

void Engine::StartCollective(int32_t c) {
  Communicator& communicator = links_.communicators[c];
  if (communicator.ready < communicator.members.size()) return;
  communicator.ready = 0;
  const StreamState& first = streams_[communicator.streams.front()];
  const int32_t action = Head(first).action;
  status_.Update(SetCollectiveTime(network_, *first.t->proto, *first.t->actions[action].action, action, &communicator));
  const TransferTime time = communicator.time;
  if (!status_.ok() || !WithinLimit(time.occupancy.ps) || !WithinLimit(time.latency.ps)) return;
  for (const int32_t s : communicator.streams) {
    StartCommunication(streams_[s], Head(streams_[s]).action, time.occupancy, time.latency);
  }
  Push(time.occupancy.ps, EventKind::kCollectiveEnd, c);
}

void Engine::StartCommunication(const StreamState& stream, int32_t action, Time occupancy, Time latency) {
  StartAction(stream, action);
  ranks_[stream.rank].meter.ChangeCommunication(now_, +1);
  ++result_.steps;
  if (!options_.trace) return;
  const Time end = {now_ + occupancy.ps};
  result_.ranks[stream.rank].events.push_back({.repetition = OwnRepetition(stream),
                                               .action = action,
                                               .step = 0,
                                               .stream = static_cast<int32_t>(stream.view - stream.t->streams.data()),
                                               .ready = {stream.ready},
                                               .start = {now_},
                                               .end = end,
                                               .finish = end + latency});
}

void Engine::EndTransfer(int32_t c) {
  // What ends here lets the next transfer of the channel become ready.
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

void Engine::EndCollective(int32_t c) {
  const Communicator& communicator = links_.communicators[c];
  const Time latency = communicator.time.latency;
  for (const int32_t s : communicator.streams) EndCommunication(s, latency);
}

void Engine::EndCommunication(int32_t s, Time latency) {
  StreamState& stream = streams_[s];
  const int32_t action = Head(stream).action;
  NextEntry(stream, /*first=*/false);
  FinishCommunication(stream.rank, action, latency);
  TryReady(s);
}

void Engine::FinishCommunication(int32_t rank, int32_t action, Time latency) {
  if (latency.ps > 0) return Push(latency.ps, EventKind::kFinish, rank, action);
  ranks_[rank].meter.ChangeCommunication(now_, -1);
  FinishAction(rank, action);
}

}  // namespace weft
