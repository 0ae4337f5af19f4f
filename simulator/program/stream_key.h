// Keys that identify the streams of a rank (rule P3), and their names.
#ifndef WEFT_SIMULATOR_PROGRAM_STREAM_KEY_H_
#define WEFT_SIMULATOR_PROGRAM_STREAM_KEY_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "simulator/network/group_form.h"

namespace weft::sim {

enum class StreamClass : uint8_t { kCompute, kD2h, kH2d, kSend, kRecv, kTransfers, kCollective };

// If the order of compute is chosen at run time, the compute stream is two queues (rule P6). An action that is in both
// queues has the key kForwards. `ordering` waits (program_view.h) keep it in order with the other queue.
enum class ComputeQueue : uint8_t { kNone, kForwards, kBackwards };

// The key by which sends and receives match (rule P4), as one of the two ranks has it.
struct ChannelView {
  bool send = false;
  // The peer's coordinate on each axis of the mesh, -1 = the rank's own.
  std::vector<int64_t> peer;
  int32_t lane = 0;
  Direction direction = DIRECTION_UNSPECIFIED;
  int32_t skip = 0;
  // Index among the transfers of one group that would otherwise have the same channel and are in flight at the same
  // time. The partner's group uses the same indices.
  int32_t slot = 0;

  friend auto operator<=>(const ChannelView&, const ChannelView&) = default;
};

// Identity of a stream within a template.
struct StreamKey {
  StreamClass kind = StreamClass::kCompute;
  // Only for compute streams.
  ComputeQueue queue = ComputeQueue::kNone;
  // Only for streams of transfers.
  std::vector<int64_t> peer;
  int32_t lane = 0;
  Direction direction = DIRECTION_UNSPECIFIED;
  int32_t skip = 0;
  // For collectives. Two groups have the same form if and only if they have the same members for every rank of the
  // template.
  GroupForm group;
  Purpose purpose = PURPOSE_UNSPECIFIED;
  // The stage whose gradients the communicator sums, if every stage has its own communicator; -1 = one for all stages.
  int32_t stage = -1;

  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

// Returns the stream of a transfer.
StreamKey TransferStream(TransferStreams sharing, const ChannelView& channel);

// Returns the stream of a communicator, for ranks of `t`.
StreamKey CollectiveStream(const Mesh& mesh, const Template& t, const Group& group, Purpose purpose);

// Returns the peer's coordinate on each axis of the mesh. A coordinate that equals the rank's own pin becomes -1, so
// that one peer has one form.
std::vector<int64_t> ResolvePeer(const Mesh& mesh, const Template& t, const Peer& peer);

// Returns a name, e.g. "compute", "send pipe=1 towards_loss lane 0", "collective data gradient_sync".
std::string StreamName(const Mesh& mesh, const StreamKey& key);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_STREAM_KEY_H_
