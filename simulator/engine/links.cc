#include "simulator/engine/links.h"

#include "proto/util/status.h"

namespace weft::sim {
namespace {

constexpr TransferTime kNotAsked = {{-1}, {-1}};

}  // namespace

Links MakeLinks(const RankLinks& links) {
  Links made;
  for (const ChannelLink& link : links.channels) {
    Channel& channel = made.channels.emplace_back();
    if (link.send >= 0) channel.source = links.ranks[links.sides[link.send].owner].rank;
    if (link.recv >= 0) channel.destination = links.ranks[links.sides[link.recv].owner].rank;
  }
  for (const CommunicatorLink& link : links.communicators) {
    Communicator& communicator = made.communicators.emplace_back();
    communicator.form = link.form;
    communicator.members = link.members;
    communicator.needed = static_cast<size_t>(link.needed);
    for (const CommunicatorStream& stream : link.streams) {
      communicator.streams.push_back(links.ranks[stream.owner].first_stream + stream.stream);
    }
  }
  return made;
}

absl::Status SetTransferTime(const NetworkModel& network, int64_t bytes, Channel* channel) {
  for (const auto& [known_bytes, time] : channel->known) {
    if (known_bytes != bytes) continue;
    channel->time = time;
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(channel->time, network.Transfer(channel->source, channel->destination, bytes));
  channel->known.push_back({bytes, channel->time});
  return absl::OkStatus();
}

absl::Status SetCollectiveTime(const NetworkModel& network, const CollectiveCall& call, int32_t index,
                               Communicator* communicator) {
  std::vector<TransferTime>& known = communicator->known;
  if (static_cast<int32_t>(known.size()) <= index) known.resize(index + 1, kNotAsked);
  if (known[index] == kNotAsked) {
    WEFT_ASSIGN_OR_RETURN(known[index], network.Collective(call, communicator->form, communicator->members));
    for (const TransferTime& other : known) {
      if (other == kNotAsked || other.latency == known[index].latency) continue;
      return absl::InternalError("the network model gives collectives of one group different latencies");
    }
  }
  communicator->time = known[index];
  return absl::OkStatus();
}

}  // namespace weft::sim
