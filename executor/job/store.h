// The rendezvous store, where the processes of a job find each other. Rank 0 serves it on MASTER_ADDR:MASTER_PORT, on
// that address alone. Every rank, including rank 0, is a client. Each connection begins with a handshake that proves
// that the client belongs to the job (handshake.h). The size of messages is limited (store_message.h).
//
// A job that cannot start ends for all ranks at once. The first failure (StoreClient::Fail, or a lost connection) is
// the answer to every request of the other ranks, including requests that wait already. One rank reports the failure to
// the user: the rank that failed, or rank 0 if a rank's connection was lost. The errors of the other ranks are marked
// (reported_remotely.h).
#ifndef WEFT_EXECUTOR_JOB_STORE_H_
#define WEFT_EXECUTOR_JOB_STORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/job/store_message.h"
#include "executor/job/tcp_socket.h"

namespace weft::exec {

struct StoreOptions {
  int size = 1;
  std::string secret;
  // Time limit for the handshake of a connection, and for the rest of a message that has partly arrived.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  // For the server: a failure of rank 0 that came before the store was served, or Ok.
  absl::Status failure = {};
};

class StoreServer {
 public:
  // Serves the store on `listener`, in a thread of the object, until the object is destroyed.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(Socket listener, const StoreOptions& options);
  // Does the same on a new listener. `host` must be an address of this machine; the server listens on no other address.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Listen(const std::string& host, int port,
                                                             const StoreOptions& options);
  ~StoreServer();

  const SocketAddress& address() const;

  // Waits until all ranks except rank 0, which calls this, have left. Otherwise returns DeadlineExceeded, which names
  // the ranks that have not left.
  absl::Status WaitForAll(std::chrono::nanoseconds timeout);
  // Called by rank 0 after a failure. Waits until every other rank that has connected is gone, so that each of them can
  // learn of the failure.
  void WaitForThoseHere(std::chrono::nanoseconds timeout);
  // Returns the ranks that have never connected.
  std::vector<int> Absent() const;

 private:
  class Serving;
  explicit StoreServer(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

// One rank's connection, used by one thread. If missing ranks are the reason for an error, the error names them.
class StoreClient {
 public:
  // Connects to the server, and tries again until `timeout` is over, because the server may start later. This call and
  // later requests call `go_on` again and again; if it returns an error, they stop and return that error.
  static absl::StatusOr<std::unique_ptr<StoreClient>> Connect(const std::string& host, int port, int rank,
                                                              const StoreOptions& options,
                                                              std::chrono::nanoseconds timeout,
                                                              std::function<absl::Status()> go_on = {});
  // Informs the server that this rank needs the store no longer.
  ~StoreClient();

  absl::Status Set(absl::string_view key, absl::string_view value);
  // Returns the value of the key. Returns NotFound if the key is not set.
  absl::StatusOr<std::string> Get(absl::string_view key);
  // Waits until the key is set and returns its value. DeadlineExceeded names the ranks that never connected, if there
  // are any.
  absl::StatusOr<std::string> Wait(absl::string_view key, std::chrono::nanoseconds timeout);
  // Waits until all ranks have called it with this name. A rank must not use a name twice. DeadlineExceeded names the
  // ranks that never connected or, if all have connected, those that did not call it.
  absl::Status Barrier(absl::string_view name, std::chrono::nanoseconds timeout);
  // Informs the other ranks that this rank cannot go on. `status` must not be Ok. Returns Ok if this rank must report
  // the failure to the user. Otherwise returns an earlier failure of the job, or the error if the store is lost.
  absl::Status Fail(const absl::Status& status);
  // The failure of the job so far, or Ok.
  absl::Status Check();

  // The local address of the connection to the store.
  absl::StatusOr<SocketAddress> local_address() const { return LocalAddress(socket_); }
  int fd() const { return socket_.fd(); }

 private:
  StoreClient(Socket socket, std::string server, std::function<absl::Status()> go_on)
      : socket_(std::move(socket)), server_(std::move(server)), go_on_(std::move(go_on)) {}
  absl::StatusOr<std::string> Ask(const StoreRequest& request);
  absl::Status Send(const StoreRequest& request, const Until& until);
  absl::StatusOr<std::string> Receive(const Until& until);
  absl::Status Lost(const absl::Status& status, const Until& until) const;

  Socket socket_;
  const std::string server_;
  const std::function<absl::Status()> go_on_;
  StoreMessageReader reader_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_STORE_H_
