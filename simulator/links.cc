#include "simulator/links.h"

#include <algorithm>

#include "proto/mesh.h"
#include "proto/status.h"
#include "proto/units.h"

namespace weft {

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
  std::vector<int64_t> lowest = RankCoordinates(mesh_, rank);
  for (size_t i = 0; i < lowest.size(); ++i) {
    const AxisPart& part = key.group[i];
    switch (part.kind) {
      case AxisPart::kOwn:
        break;
      case AxisPart::kAll:
        lowest[i] = 0;
        break;
      case AxisPart::kListed:
        lowest[i] = part.listed.front();
        break;
      case AxisPart::kBlock:
        lowest[i] -= lowest[i] % part.size;
        break;
      case AxisPart::kStride:
        lowest[i] %= part.size;
        break;
    }
  }
  const auto [at, inserted] =
      communicator_of_.try_emplace({key.purpose, CoordinatesRank(mesh_, lowest), key.group}, -1);
  if (inserted) {
    // Templates with other pins may spell the same group in another way.
    const auto [found, is_new] = communicator_of_members_.try_emplace(
        {key.purpose, FormMembers(mesh_, rank, key.group)}, static_cast<int32_t>(communicators.size()));
    if (is_new) communicators.emplace_back().members = found->first.second;
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

absl::Status SetCollectiveTime(const NetworkModel& network, const Template& t, const Action& action, int32_t index,
                               Communicator* communicator) {
  for (const auto& [known_index, time] : communicator->known) {
    if (known_index != index) continue;
    communicator->time = time;
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* algorithm, FindCollective(action.algorithm()));
  std::vector<CollectivePart> parts;
  for (const int32_t source : action.sources()) {
    const Buffer& buffer = t.buffers(source);
    const int64_t element_bytes = std::max<int64_t>(DTypeBytes(buffer.dtype()), 1);
    parts.push_back({.elements = buffer.bytes() / element_bytes, .element_bytes = element_bytes});
  }
  WEFT_ASSIGN_OR_RETURN(communicator->time, network.AllReduce(*algorithm, communicator->members, parts));
  communicator->known.push_back({index, communicator->time});
  return absl::OkStatus();
}

}  // namespace weft
