// How the messages of a program are distinguished: channels between two ranks, and the streams that carry communication
// (rule P3).
#ifndef WEFT_EXECUTOR_INTERFACE_CHANNELS_H_
#define WEFT_EXECUTOR_INTERFACE_CHANNELS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/util/action_kind.h"

namespace weft::exec {

// The key of a channel: (0, lane, direction, {skip}) for a transfer, (1, 0, purpose, members) for a communicator.
using ChannelKey = std::tuple<int, int, int, std::vector<int64_t>>;

inline bool IsTransfer(const Action& action) { return weft::IsTransfer(action.kind()); }
inline bool IsCollective(const Action& action) { return weft::IsCollective(action.kind()); }
inline bool IsCompute(const Action& action) { return !IsMessage(action.kind()); }
inline bool IsCollective(const Step& step) { return step.stream() == COLLECTIVE; }

ChannelKey TransferKey(const Action& action);
ChannelKey CommunicatorKey(const Mesh& mesh, int rank, const Group& group, Purpose purpose);

// Numbers the channels between `rank` and each peer. Both ends see the same set of keys, so sorting the keys gives the
// same numbers on both.
class ChannelMap {
 public:
  ChannelMap(const Program& program, int rank, const Template& t);

  // Returns the number of the channel to `peer`, or -1 if no action of the rank uses it.
  int Channel(int64_t peer, const ChannelKey& key) const;

 private:
  std::map<std::pair<int64_t, ChannelKey>, int> channels_;
};

// Returns, for example, "send pipe=1 towards_loss lane 0" or "p2p".
std::string TransferStreamName(TransferStreams sharing, const Action& action);
// Returns, for example, "GRADIENT_SYNC over data,pipe=0+3".
std::string CommunicatorName(const Group& group, Purpose purpose);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_CHANNELS_H_
