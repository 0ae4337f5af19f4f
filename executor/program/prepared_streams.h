// The streams that a rank's program runs on (rule P3), each made where it is met for the first time. Internal to the
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
  // Appends to `streams`: compute, d2h, h2d, later the others in order of first use. All that it is given outlives it.
  PreparedStreams(const Program& program, int rank, const Template& t, ComputeDevice& device, NativeCollectives* native,
                  const StreamPlan& plan, std::vector<PreparedStream>& streams);

  // The three that every rank has; those of copies get a stream of an asynchronous device by UseCopies only.
  absl::Status Begin();
  // Of a message-driven program: the queue of its backwards, on the stream of the device that compute has.
  int AddBackwardQueue();
  // Gives those of copies that have steps a stream of the device.
  absl::Status UseCopies();

  // Indices into `streams`; errors name the action. Of a SEND or RECV to `peer`:
  absl::StatusOr<int> OfTransfer(const Action& action, int64_t peer);
  // Of a collective step; looked up once for all actions that run its segment.
  absl::StatusOr<int> OfStep(const Step& step, const Action& action);
  // That of the (group, purpose).
  absl::StatusOr<int> OfCommunicator(const Group& group, Purpose purpose, const Action& action);

  // Of a SEND or RECV to `peer`.
  absl::StatusOr<int> Channel(const Action& action, int64_t peer) const;

 private:
  std::string Name(const Action& action) const;
  // A stream of the device for it, if that works on its own.
  absl::Status Take(StreamUse use, PreparedStream& stream);
  absl::Status Add(StreamType type, std::string name, StreamUse use);
  absl::StatusOr<int> Checked(int channel, const Action& action) const;

  // Sort of stream, peer or direction, whether it sends, what it is of.
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
  // Of collective steps.
  absl::flat_hash_map<const Step*, int> of_step_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PREPARED_STREAMS_H_
