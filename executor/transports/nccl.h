// Memory of CUDA devices over NCCL: a rank is a process with a device of its own. Messages in memory of the host
// (control messages) go over an inner endpoint. How edges become communicators, and why no order of them can deadlock:
// docs/transports.md.
#ifndef WEFT_EXECUTOR_TRANSPORTS_NCCL_H_
#define WEFT_EXECUTOR_TRANSPORTS_NCCL_H_

#include <memory>

#include "executor/interface/transport.h"
#include "executor/transports/nccl_table.h"

namespace weft::exec {

// `table` outlives the endpoint. `host` moves memory of the host.
std::unique_ptr<Endpoint> MakeNcclEndpoint(const NcclTable& table, std::unique_ptr<Endpoint> host);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_NCCL_H_
