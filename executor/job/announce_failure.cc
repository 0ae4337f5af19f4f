#include "executor/job/announce_failure.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/job/reported_remotely.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// How long rank 0 waits for processes that have not connected. The processes of a job start at about the same time, and
// the launcher ends a process that comes later.
constexpr seconds kForLatecomers(8);
// How long this rank tries to reach the store before it reports the failure itself: rank 0 may start a little later.
constexpr seconds kBeforeSaying(3);
// How long this rank then goes on trying to reach the store. Rank 0 may still be reading a large program.
constexpr seconds kForTheStore(120);

bool Stopped(const Rendezvous& rendezvous) {
  return rendezvous.stop != nullptr && rendezvous.stop->load(std::memory_order_relaxed);
}

// Passes the failure on to the store. Returns true if there is nothing more to do; `*elsewhere` is set if another rank
// reports the failure.
bool Tell(const Rendezvous& rendezvous, const StoreOptions& options, nanoseconds timeout, const absl::Status& status,
          bool* elsewhere) {
  const auto go_on = [&]() -> absl::Status {
    return Stopped(rendezvous) ? absl::CancelledError("asked to stop") : absl::OkStatus();
  };
  const auto store =
      StoreClient::Connect(rendezvous.host, rendezvous.port, rendezvous.process.rank, options, timeout, go_on);
  // If the store refuses this process, trying again changes nothing.
  if (!store.ok()) return !absl::IsDeadlineExceeded(store.status());
  *elsewhere = ReportedRemotely((*store)->Fail(status));
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreServer>> ServeStore(const Rendezvous& rendezvous, const StoreOptions& options) {
  if (rendezvous.listener_fd < 0) return StoreServer::Listen(rendezvous.host, rendezvous.port, options);
  WEFT_ASSIGN_OR_RETURN(Socket listener, AdoptListener(rendezvous.listener_fd));
  return StoreServer::Start(std::move(listener), options);
}

void WaitForLatecomers(const Rendezvous& rendezvous, StoreServer& server) {
  const nanoseconds most = std::min<nanoseconds>(kForLatecomers, rendezvous.timeout);
  for (nanoseconds waited{0}; waited < most && !Stopped(rendezvous); waited += milliseconds(100)) {
    if (server.WaitForAll(milliseconds(100)).ok()) return;
  }
}

void AnnounceFailure(const Rendezvous& rendezvous, const absl::Status& status, const std::function<void()>& say) {
  const LaunchedAs& process = rendezvous.process;
  StoreOptions options = {.size = process.size, .secret = rendezvous.secret};
  if (process.rank == 0) {
    options.failure = status;
    const auto server = ServeStore(rendezvous, options);
    say();
    if (server.ok()) WaitForLatecomers(rendezvous, **server);
    return;
  }
  bool elsewhere = false;
  const bool over =
      Tell(rendezvous, options, std::min<nanoseconds>(kBeforeSaying, rendezvous.timeout), status, &elsewhere);
  // If a launcher has asked this process to stop, another process has failed: its failure is reported, not this one.
  if (!elsewhere && !Stopped(rendezvous)) say();
  // The local launcher ends the others.
  if (over || process.bootstrap == Bootstrap::kLocal) return;
  Tell(rendezvous, options, std::min<nanoseconds>(kForTheStore, rendezvous.timeout), status, &elsewhere);
}

}  // namespace weft::exec
