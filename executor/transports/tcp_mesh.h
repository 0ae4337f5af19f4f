// The connections of the transport `tcp`: one between every two ranks of a job, made at its start through the
// rendezvous store and proven by the job's secret.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TCP_MESH_H_
#define WEFT_EXECUTOR_TRANSPORTS_TCP_MESH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/job/bootstrap.h"
#include "executor/job/store.h"
#include "executor/job/tcp_socket.h"

namespace weft::exec {

struct TcpConnection {
  // Not open in the rank's connection to itself.
  Socket socket;
  int64_t process = 0;
  std::string host;
};

// Returns the connections by rank. When it returns, all ranks have all their connections. Each rank listens for the
// others on the address by which it reaches the store, on a port that the system chooses, and only until then.
absl::StatusOr<std::vector<TcpConnection>> ConnectMesh(const Rendezvous& rendezvous);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TCP_MESH_H_
