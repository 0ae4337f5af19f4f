// Transports between ranks that are threads of one process: matches their transfers, and ends all ranks on an abort.
// Each transport moves the bytes of a matched pair itself. Internal to the transports.
#ifndef WEFT_EXECUTOR_TRANSPORTS_RENDEZVOUS_H_
#define WEFT_EXECUTOR_TRANSPORTS_RENDEZVOUS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Moves the bytes of matched transfers. The ranks' threads call it, several at once.
class Mover {
 public:
  virtual ~Mover() = default;

  // Called for Endpoint::UseDevice of a rank.
  virtual absl::Status UseDevice(ComputeDevice* device) = 0;
  // Called when the transfer is about to be posted; no partner can match it yet.
  virtual absl::Status Prepare(Transfer* /*transfer*/, bool /*send*/) { return absl::OkStatus(); }
  // Moves the bytes of a pair. Both sides are posted and agree in bytes. Called on the thread of the rank that came
  // later. When it returns, both are done.
  virtual absl::Status Move(Transfer* send, Transfer* receive) = 0;
};

// Copies from memory to memory.
class MemoryMover : public Mover {
 public:
  absl::Status UseDevice(ComputeDevice* device) override;
  absl::Status Move(Transfer* send, Transfer* receive) override;
};

// Returns the endpoints of `ranks` >= 1 ranks. The mover outlives the last of them.
std::vector<std::unique_ptr<Endpoint>> ThreadEndpoints(int ranks, std::shared_ptr<Mover> mover);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_RENDEZVOUS_H_
