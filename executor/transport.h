// How bytes move between ranks. A transport knows nothing of programs: it matches sends with receives, channel by
// channel, and moves the bytes.
#ifndef WEFT_EXECUTOR_TRANSPORT_H_
#define WEFT_EXECUTOR_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// Monotonic clock of this machine, in nanoseconds.
inline int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One message, owned by the caller from the post until it is done; it may then be posted again. Nothing is allocated
// per message.
struct Transfer {
  // Set by the caller.
  void* data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  // Messages between two ranks match in order within a channel and direction, and not across channels.
  int channel = 0;

  // Set by the transport: when both sides were posted (the transport's best knowledge) and when the bytes had moved.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::atomic<bool> done{false};

  // The transport's own.
  int owner = 0;
  Transfer* next = nullptr;
  int64_t parts_left = 0;
};

// Channels below this are the program's; the others are the executor's own (executor/control.h).
inline constexpr int kProgramChannels = 30000;
inline constexpr int kMaximumChannel = 32000;

// One rank's access to the others. Used by one thread, but for Wake and Abort, which any thread may call.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Strict rendezvous: a send is not done before its receive has been posted. The bytes of a matched pair must agree;
  // if not, the whole job is aborted with an error that names both. Errors: the status of an abort.
  virtual absl::Status PostSend(Transfer* transfer) = 0;
  virtual absl::Status PostRecv(Transfer* transfer) = 0;

  // Moves things on, without waiting. True if a transfer of this rank may have become done, or Wake was called, since
  // the last Poll or WaitForProgress that said so. Errors: the status of an abort.
  virtual absl::StatusOr<bool> Poll() = 0;

  // As Poll, but sleeps until it is true or `timeout` has passed.
  virtual absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) = 0;

  // Ends a WaitForProgress of this rank, now or the next one.
  virtual void Wake() = 0;

  // Gives up: all ranks' calls return `status` from now on. The first abort of a job wins; true if that was one of this
  // rank. When this has returned, or another call has returned the status of an abort, the transport does not touch
  // posted transfers of this rank, nor their memory, any more.
  virtual bool Abort(const absl::Status& status) = 0;

  // What this rank is doing, so that others can name it should its process die. Cheap.
  virtual void Note(int64_t step, int32_t action) = 0;

  // An error if the process of some rank is known to have died: "rank 2 died ...". `last` receives its rank and what
  // it noted last. Always ok where ranks share a process.
  struct LastNote {
    int rank = -1;
    int64_t step = 0;
    int32_t action = 0;
  };
  virtual absl::Status CheckPeers(LastNote* last) = 0;
};

struct TransportEntry {
  absl::string_view name;
  // The endpoints of the ranks that live in this process, in rank order.
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> (*open)(int ranks);
  absl::string_view description;
};

// All known transports, sorted by name.
absl::Span<const TransportEntry> Transports();

// By name; "auto" is mpi under an MPI launcher and inproc otherwise. NotFound lists the known names.
absl::StatusOr<const TransportEntry*> FindTransport(absl::string_view name);

// Rank and size that an MPI launcher has given to this process; size 0 if there is none.
struct LauncherRank {
  int rank = 0;
  int size = 0;
};
LauncherRank RankFromLauncher();

}  // namespace weft

#endif  // WEFT_EXECUTOR_TRANSPORT_H_
