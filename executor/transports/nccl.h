// Memory of CUDA devices over NCCL: a rank is a process with a device of its own. Messages in host memory (control
// messages) go over an inner endpoint. docs/transports.md explains how edges become communicators, and why no order of
// them can deadlock.
#ifndef WEFT_EXECUTOR_TRANSPORTS_NCCL_H_
#define WEFT_EXECUTOR_TRANSPORTS_NCCL_H_

#include <memory>

#include "executor/interface/transport.h"
#include "executor/transports/nccl_table.h"

namespace weft::exec {

// `table` must outlive the endpoint. `host` moves host memory.
std::unique_ptr<Endpoint> MakeNcclEndpoint(const NcclTable& table, std::unique_ptr<Endpoint> host);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_NCCL_H_
