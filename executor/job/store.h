// The rendezvous store, where the processes of a job find each other. Rank 0 serves it on MASTER_ADDR:MASTER_PORT, on
// that address alone. Every rank, including rank 0, is a client. Connections prove themselves first (handshake.h), and
// messages are bounded (store_message.h).
//
// A job that cannot start ends for all ranks at once. The failure of the first rank (StoreClient::Fail, or a connection
// that is lost) answers every request of the others, now and later. One rank reports it: the rank that failed, or rank
// 0 for a rank that is gone. The errors of the others are marked (reported_remotely.h).
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
  // Time for a connection to prove itself, and for a message that has begun to become whole.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  // For the server: the failure of rank 0 before it served, or Ok.
  absl::Status failure = {};
};

class StoreServer {
 public:
  // Serves in a thread of its own until it is destroyed.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(Socket listener, const StoreOptions& options);
  // Listens on `host` alone, which is an address of this machine.
  static absl::StatusOr<std::unique_ptr<StoreServer>> Listen(const std::string& host, int port,
                                                             const StoreOptions& options);
  ~StoreServer();

  const SocketAddress& address() const;

  // Waits until all ranks except rank 0, whose thread this is, have left. DeadlineExceeded names those that have not.
  absl::Status WaitForAll(std::chrono::nanoseconds timeout);
  // After a failure: waits until the ranks that are here know of it.
  void WaitForThoseHere(std::chrono::nanoseconds timeout);
  // Ranks that have not come.
  std::vector<int> Absent() const;

 private:
  class Serving;
  explicit StoreServer(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

// One rank's connection, used by one thread. If missing ranks are the reason for an error, the error names them.
class StoreClient {
 public:
  // Tries until `timeout` is over, because the server may start later. This call and later requests ask `go_on`; its
  // error ends them.
  static absl::StatusOr<std::unique_ptr<StoreClient>> Connect(const std::string& host, int port, int rank,
                                                              const StoreOptions& options,
                                                              std::chrono::nanoseconds timeout,
                                                              std::function<absl::Status()> go_on = {});
  // Tells the server that this rank does not need it any more.
  ~StoreClient();

  absl::Status Set(absl::string_view key, absl::string_view value);
  // NotFound if the key is not set.
  absl::StatusOr<std::string> Get(absl::string_view key);
  // Waits until the key is set. DeadlineExceeded names ranks that never came.
  absl::StatusOr<std::string> Wait(absl::string_view key, std::chrono::nanoseconds timeout);
  // Waits until all ranks have called it with this name, each once. DeadlineExceeded names the ranks that did not.
  absl::Status Barrier(absl::string_view name, std::chrono::nanoseconds timeout);
  // Informs the others that this rank cannot go on; `status` is not Ok. Returns Ok if this rank must report the
  // failure. Otherwise returns the failure that came before, or that the store is lost.
  absl::Status Fail(const absl::Status& status);
  // The failure of the job so far, or Ok.
  absl::Status Check();

  // This machine's address as the store sees it.
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
