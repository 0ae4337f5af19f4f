// How bytes move between ranks. A transport knows nothing of programs: it matches sends with receives, channel by
// channel, and moves the bytes.
#ifndef WEFT_EXECUTOR_INTERFACE_TRANSPORT_H_
#define WEFT_EXECUTOR_INTERFACE_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/interface/device.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/program.pb.h"

namespace weft::exec {

// One message, owned by the caller from the post until it is done; it may then be posted again. Nothing is allocated
// per message.
struct Transfer {
  // Set by the caller.
  void* data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  // Messages between two ranks match in order within a channel and direction, and not across channels.
  int channel = 0;
  // Of the endpoint's device (UseDevice): `data` is its memory, and the transfer takes its place in the order of this
  // stream. On an asynchronous device it is then done when both sides have been posted and the bytes' move is enqueued:
  // what is enqueued on the stream afterwards finds it over. -1: memory of the host, done when the bytes have moved.
  int stream = -1;
  // For Connect: it may be posted in a group with others.
  bool grouped = true;

  // Set by the transport: when both sides were posted (the transport's best knowledge) and when the bytes had moved.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::atomic<bool> done{false};

  // The transport's own.
  int owner = 0;
  Transfer* next = nullptr;
  int64_t parts_left = 0;
};

// Channels below this are the program's; the others are the executor's own (executor/interpreter/control.h).
inline constexpr int kProgramChannels = 30000;
inline constexpr int kMaximumChannel = 32000;

// Collectives of a transport's own, on memory of the device.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;

  struct Call {
    // What the three kinds of ActionKind are: ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER.
    ActionKind kind = ACTION_UNSPECIFIED;
    // As in executor/collective/collective.h: `elements` of the source of an all-reduce or reduce-scatter, and of one
    // member's of an all-gather.
    DType dtype = DTYPE_UNSPECIFIED;
    int64_t elements = 0;
    const void* source = nullptr;
    void* destination = nullptr;
  };

  // A number for the group, the same call on all its members in the same order. `ranks` in member order.
  virtual absl::StatusOr<int> NewGroup(absl::Span<const int> ranks, absl::string_view name) = 0;
  // Whether the transport has it, and whether it sums in the order of the algorithm (rule P10).
  virtual bool Has(const Call& call) const = 0;
  virtual bool KeepsOrder(const Call& call, absl::string_view algorithm, int members) const = 0;
  // Enqueues calls that start together. All members make the same calls in the same order.
  virtual absl::Status Enqueue(int group, absl::Span<const Call> calls, int stream) = 0;
};

// One rank's access to the others. Used by one thread, but for Wake, Abort and AbortReason, which any thread may call.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // How long the transport may wait inside of a call, for what only set-up does (other ranks' part in a connection).
  virtual void SetTimeout([[maybe_unused]] std::chrono::nanoseconds timeout) {}

  // From now on transfers may be in the device's memory; it outlives the endpoint. Once, before the first transfer.
  // Unimplemented: the transport moves memory of the host only (then executor/transports/staged.h goes between).
  virtual absl::Status UseDevice(ComputeDevice* device) {
    return device->asynchronous() ? absl::UnimplementedError("the transport moves memory of the host only")
                                  : absl::OkStatus();
  }
  // Ranks of this process on the device, this one among them.
  virtual int ranks_on_device() const { return 1; }
  // Whether a transfer or collective holds up its stream until the other side is there. Else what is enqueued waits
  // only for what was enqueued before it, and streams may share a hardware queue of the device in any way.
  virtual bool holds_streams() const { return false; }
  // Streams of the device that the transport works on by itself.
  virtual int own_streams() const { return 0; }
  // Transfers on device streams that this rank will post, in list order, each edge once or more: buffers and
  // connections are made here, none in a step. All ranks call it, after UseDevice; it may exchange messages.
  virtual absl::Status Connect(absl::Span<const Transfer* const> sends, absl::Span<const Transfer* const> receives) {
    return absl::OkStatus();
  }
  // Transfers posted between the two start together (rule P4).
  virtual absl::Status BeginGroup() { return absl::OkStatus(); }
  virtual absl::Status EndGroup() { return absl::OkStatus(); }
  // Null: it has none.
  virtual NativeCollectives* native_collectives() { return nullptr; }

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
  // What the job was given up for, or Ok. Any thread may ask.
  virtual absl::Status AbortReason() { return absl::OkStatus(); }

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

// By name; "auto" is mpi under an MPI launcher, tcp where another started this process (executor/job/bootstrap.h), and
// inproc otherwise. NotFound lists the known names.
absl::StatusOr<const TransportEntry*> FindTransport(absl::string_view name);

// Rank and size that a launcher has given to this process, and its rank among the processes of its node; size 0 if
// there is none.
struct LauncherRank {
  int rank = 0;
  int size = 0;
  int local_rank = 0;
};
LauncherRank RankFromLauncher();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_TRANSPORT_H_
