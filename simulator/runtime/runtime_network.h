// Collectives over replicas and transfers between stages as a framework makes them: tensor by tensor, with the time
// that the host needs for each member, and with transfers shared by the ranks of a layer.
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_NETWORK_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_NETWORK_H_

#include <memory>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

// Returns `network` itself if the runtime communicates as the program states. `runtime` and `program` must outlive the
// model.
std::unique_ptr<NetworkModel> NetworkUnder(const Runtime& runtime, const Program& program,
                                           std::unique_ptr<NetworkModel> network);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_NETWORK_H_
