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

std::vector<int64_t> Links::Members(int64_t rank, const std::vector<std::vector<int64_t>>& group) const {
  Group spelled;
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].empty()) continue;
    AxisSubset* axis = spelled.add_axes();
    axis->set_axis(mesh_.axes(i).name());
    if (group[i].front() >= 0) axis->mutable_indices()->Add(group[i].begin(), group[i].end());
  }
  return GroupMembers(mesh_, rank, spelled);
}

int32_t Links::AddTransfer(int64_t rank, const ChannelView& view) {
  const int64_t peer = Resolve(rank, view.peer);
  const auto [at, inserted] = channel_of_.try_emplace(
      {view.send ? rank : peer, view.send ? peer : rank, view.lane, view.direction, view.skip, view.slot},
      static_cast<int32_t>(channels.size()));
  if (inserted) channels.emplace_back();
  return at->second;
}

int32_t Links::AddCollective(int64_t rank, const StreamView& view, int32_t stream) {
  // A group is known by its lowest member and the coordinates that it lists on each axis.
  std::vector<int64_t> lowest(view.group.size(), -1);
  for (size_t i = 0; i < lowest.size(); ++i) {
    if (!view.group[i].empty()) lowest[i] = std::max<int64_t>(view.group[i].front(), 0);
  }
  const auto [at, inserted] = communicator_of_.try_emplace({view.purpose, Resolve(rank, lowest), view.group},
                                                           static_cast<int32_t>(communicators.size()));
  if (inserted) communicators.emplace_back().members = Members(rank, view.group);
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
