#include "simulator/links.h"

#include <algorithm>

#include "proto/mesh.h"
#include "proto/status.h"
#include "proto/units.h"

namespace weft {
namespace {

constexpr TransferTime kNotAsked = {{-1}, {-1}};

}  // namespace

int64_t Links::Resolve(int64_t rank, const std::vector<int64_t>& coordinates) const {
  std::vector<int64_t> own = RankCoordinates(mesh_, rank);
  for (size_t i = 0; i < own.size(); ++i) {
    if (coordinates[i] >= 0) own[i] = coordinates[i];
  }
  return CoordinatesRank(mesh_, own);
}

int32_t Links::AddTransfer(int64_t rank, const ChannelView& view) {
  const int64_t peer = Resolve(rank, view.peer);
  const auto [at, inserted] = channel_of_.try_emplace(
      {view.send ? rank : peer, view.send ? peer : rank, view.lane, view.direction, view.skip, view.slot},
      static_cast<int32_t>(channels.size()));
  if (inserted) channels.emplace_back();
  return at->second;
}

int32_t Links::AddCollective(int64_t rank, const StreamKey& key, int32_t stream) {
  // A group is known by its lowest member and the coordinates that it takes on each axis; its members are looked at
  // only the first time.
  const std::vector<int64_t> lowest = LowestCoordinates(key.group, RankCoordinates(mesh_, rank));
  const auto [at, inserted] =
      communicator_of_.try_emplace({key.purpose, CoordinatesRank(mesh_, lowest), key.group}, -1);
  if (inserted) {
    // Templates with other pins may spell the same group in another way.
    const auto [found, is_new] = communicator_of_members_.try_emplace(
        {key.purpose, FormMembers(mesh_, rank, key.group)}, static_cast<int32_t>(communicators.size()));
    if (is_new) {
      communicators.emplace_back().members = found->first.second;
      communicators.back().form = key.group;
    }
    at->second = found->second;
  }
  communicators[at->second].streams.push_back(stream);
  return at->second;
}

absl::Status SetTransferTime(const NetworkModel& network, int64_t source, int64_t destination, int64_t bytes,
                             Channel* channel) {
  for (const auto& [known_bytes, time] : channel->known) {
    if (known_bytes != bytes) continue;
    channel->time = time;
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(channel->time, network.Transfer(source, destination, bytes));
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

}  // namespace weft
