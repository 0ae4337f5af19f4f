#include "executor/interface/channels.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"

namespace weft::exec {

ChannelKey TransferKey(const Action& action) {
  return {0, action.lane(), static_cast<int>(action.direction()), {action.skip()}};
}

ChannelKey CommunicatorKey(const Mesh& mesh, int rank, const Group& group, Purpose purpose) {
  return {1, 0, static_cast<int>(purpose), GroupMembers(mesh, rank, group)};
}

ChannelMap::ChannelMap(const Program& program, int rank, const Template& t) {
  const Mesh& mesh = program.mesh();
  std::map<int64_t, std::set<ChannelKey>> keys;
  const auto add_communicator = [&](const Group& group, Purpose purpose) {
    const ChannelKey key = CommunicatorKey(mesh, rank, group, purpose);
    for (const int64_t member : std::get<3>(key)) keys[member].insert(key);
  };
  std::set<int> segments;
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      if (IsTransfer(action)) {
        keys[PeerRank(mesh, rank, action.peer())].insert(TransferKey(action));
      } else if (IsCollective(action)) {
        add_communicator(action.group(), action.purpose());
      } else {
        segments.insert(action.segment());
      }
    }
  }
  for (const int segment : segments) {
    for (const Step& step : program.segments(segment).steps()) {
      if (IsCollective(step)) add_communicator(step.collective().group(), step.collective().purpose());
    }
  }
  for (const auto& [peer, set] : keys) {
    int number = 0;
    for (const ChannelKey& key : set) channels_[{peer, key}] = number++;
  }
}

int ChannelMap::Channel(int64_t peer, const ChannelKey& key) const {
  const auto found = channels_.find({peer, key});
  return found == channels_.end() ? -1 : found->second;
}

std::string TransferStreamName(TransferStreams sharing, const Action& action) {
  const char* direction = action.direction() == TOWARDS_LOSS ? "towards_loss" : "from_loss";
  if (sharing == SHARED) return "p2p";
  if (sharing == PER_DIRECTION) return absl::StrCat("p2p ", direction);
  std::vector<std::string> at;
  for (const Coordinate& c : action.peer().at()) at.push_back(absl::StrCat(c.axis(), "=", c.index()));
  return absl::StrCat(action.kind() == SEND ? "send " : "recv ", absl::StrJoin(at, ","), " ", direction, " lane ",
                      action.lane(), action.skip() > 0 ? absl::StrCat(" skip ", action.skip()) : "");
}

std::string CommunicatorName(const Group& group, Purpose purpose) {
  std::vector<std::string> axes;
  for (const AxisSubset& axis : group.axes()) {
    std::string text = axis.axis();
    if (!axis.indices().empty()) {
      absl::StrAppend(&text, "=", absl::StrJoin(axis.indices(), "+"));
    } else if (axis.block() > 0) {
      absl::StrAppend(&text, " in blocks of ", axis.block());
    } else if (axis.stride() > 0) {
      absl::StrAppend(&text, " across blocks of ", axis.stride());
    }
    axes.push_back(std::move(text));
  }
  return absl::StrCat(Purpose_Name(purpose), " over ", absl::StrJoin(axes, ","));
}

}  // namespace weft::exec
