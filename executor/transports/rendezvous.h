// Transports between ranks that are threads of one process: who meets whom, and what ends them all. How the bytes of a
// matched pair move is the transport's own. Internal to the transports.
#ifndef WEFT_EXECUTOR_TRANSPORTS_RENDEZVOUS_H_
#define WEFT_EXECUTOR_TRANSPORTS_RENDEZVOUS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Called by the ranks' threads, several at once.
class Mover {
 public:
  virtual ~Mover() = default;

  // Endpoint::UseDevice of a rank.
  virtual absl::Status UseDevice(ComputeDevice* device) = 0;
  // The transfer is about to be posted; no partner knows it yet.
  virtual absl::Status Prepare(Transfer* /*transfer*/, bool /*send*/) { return absl::OkStatus(); }
  // Both sides are posted and agree in bytes; called on the thread of the one that came later. When it returns both are
  // done.
  virtual absl::Status Move(Transfer* send, Transfer* receive) = 0;
};

// Copies from memory to memory.
class MemoryMover : public Mover {
 public:
  absl::Status UseDevice(ComputeDevice* device) override;
  absl::Status Move(Transfer* send, Transfer* receive) override;
};

// Endpoints of `ranks` >= 1 ranks. The mover outlives the last of them.
std::vector<std::unique_ptr<Endpoint>> ThreadEndpoints(int ranks, std::shared_ptr<Mover> mover);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_RENDEZVOUS_H_
