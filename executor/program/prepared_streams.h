// The streams that a rank's program runs on (rule P3). Each is made when it is first needed. Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PREPARED_STREAMS_H_
#define WEFT_EXECUTOR_PROGRAM_PREPARED_STREAMS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/channels.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "executor/program/prepared_program.h"
#include "executor/program/stream_demand.h"
#include "executor/program/stream_fold.h"
#include "proto/program.pb.h"

namespace weft::exec {

class PreparedStreams {
 public:
  // Appends to `streams`: compute, d2h and h2d, later the others in order of first use. All arguments must outlive
  // this.
  PreparedStreams(const Program& program, int rank, const Template& t, ComputeDevice& device, NativeCollectives* native,
                  const StreamPlan& plan, std::vector<PreparedStream>& streams);

  // Makes the three streams that every rank has. On an asynchronous device, the two streams of copies get no device
  // stream until UseCopies is called.
  absl::Status Begin();
  // For a message-driven program: adds the queue of its backwards, on the device stream of compute, and returns its
  // index in `streams`.
  int AddBackwardQueue();
  // Gives a device stream to each stream of copies that has steps.
  absl::Status UseCopies();

  // The stream of a SEND or RECV to `peer`. This function and the next two return indices into `streams`; errors name
  // the action.
  absl::StatusOr<int> TransferStream(const Action& action, int64_t peer);
  // The stream of a collective step. It is looked up once for all actions that run its segment.
  absl::StatusOr<int> StepStream(const Step& step, const Action& action);
  // The stream of the communicator of (group, purpose).
  absl::StatusOr<int> CommunicatorStream(const Group& group, Purpose purpose, const Action& action);

  // The channel of a SEND or RECV to `peer`.
  absl::StatusOr<int> Channel(const Action& action, int64_t peer) const;

 private:
  std::string Name(const Action& action) const;
  // If the device is asynchronous, takes one of its streams for `stream`.
  absl::Status Take(StreamUse use, PreparedStream& stream);
  absl::Status Add(StreamType type, std::string name, StreamUse use);
  absl::StatusOr<int> Checked(int channel, const Action& action) const;

  // Kind of stream, peer or direction, whether it sends, and the key of the transfer or communicator.
  using StreamKey = std::tuple<int, int64_t, bool, ChannelKey>;

  const Program& program_;
  const int rank_;
  ComputeDevice& device_;
  NativeCollectives* const native_;
  StreamFold fold_;
  const TransferStreams transfer_streams_;
  const ChannelMap channels_;
  std::vector<PreparedStream>& streams_;
  std::map<StreamKey, int> known_;
  // The streams of collective steps.
  absl::flat_hash_map<const Step*, int> of_step_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PREPARED_STREAMS_H_
