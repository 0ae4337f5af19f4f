// Device memory over a transport that moves host memory. A message is copied to pinned host memory on the sender's
// stream, sent from there, received into pinned memory, and copied to the device on the receiver's stream. Singh and
// Bhatele 2022, "AxoNN", arXiv:2110.13005, do so with asynchronous MPI. Long messages go in pieces, so that copies and
// messages overlap and the pinned memory is bounded.
#ifndef WEFT_EXECUTOR_TRANSPORTS_STAGED_H_
#define WEFT_EXECUTOR_TRANSPORTS_STAGED_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// For each (peer, channel, direction): a longer message goes in pieces of kStagedPieceBytes, and at most kStagedPieces
// of them are on the way. Both ends must agree on the size. The sizes of a pair are compared piece by piece.
inline constexpr int64_t kStagedPieceBytes = int64_t{4} << 20;
inline constexpr int kStagedPieces = 2;

// Stages transfers with a stream through `inner`; other transfers go to `inner` directly. UseDevice must be called on
// the result, and Connect with every edge that messages will use: their pinned memory is allocated there. A send is
// done when all its pieces have been received, a receive when its last copy is enqueued.
std::unique_ptr<Endpoint> MakeStagedEndpoint(std::unique_ptr<Endpoint> inner);

// Gives the endpoint the device, or stages the endpoint if it moves host memory only. Returns true if it is staged.
absl::StatusOr<bool> UseDeviceOrStage(std::unique_ptr<Endpoint>& endpoint, ComputeDevice* device);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_STAGED_H_
