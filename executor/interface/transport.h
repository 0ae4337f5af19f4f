// The interface of transports, which move bytes between ranks. A transport does not depend on programs: it matches
// sends with receives, channel by channel, and moves the bytes.
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

// One message. The caller owns it and must keep it from when it is posted until it is done; it may then be posted
// again. Nothing is allocated per message.
struct Transfer {
  // Set by the caller.
  void* data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  // Messages between two ranks match in order within a channel and direction, but not across channels.
  int channel = 0;
  // The number of a stream of the endpoint's device (UseDevice): `data` is then device memory, and the transfer takes
  // its place in the order of this stream. On an asynchronous device the transfer is done when both sides have been
  // posted and the move of the bytes is enqueued. Work that is enqueued on the stream afterwards runs after the move.
  // -1: `data` is host memory, and the transfer is done when the bytes have moved.
  int stream = -1;
  // For Connect: true if the transfer may be posted in a group with others.
  bool grouped = true;

  // Set by the transport: when both sides had been posted (as far as the transport knows) and when the bytes had moved.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::atomic<bool> done{false};

  // For the transport's own use.
  int owner = 0;
  Transfer* next = nullptr;
  int64_t parts_left = 0;
};

// Channels below kProgramChannels belong to the program, the others to the executor (executor/interpreter/control.h).
inline constexpr int kProgramChannels = 30000;
inline constexpr int kMaxChannel = 32000;

// Collectives that a transport runs itself, on device memory.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;

  struct Call {
    // One of ALL_REDUCE, ALL_GATHER and REDUCE_SCATTER.
    ActionKind kind = ACTION_UNSPECIFIED;
    // As in executor/collective/collective.h: `elements` counts the source of an all-reduce or reduce-scatter, and one
    // member's part of an all-gather.
    DType dtype = DTYPE_UNSPECIFIED;
    int64_t elements = 0;
    const void* source = nullptr;
    void* destination = nullptr;
  };

  // Returns a number for the group. All its members make the same calls in the same order. `ranks` is in member order.
  virtual absl::StatusOr<int> NewGroup(absl::Span<const int> ranks, absl::string_view name) = 0;
  // Has: whether the transport supports the call. KeepsOrder: whether it sums in the order of the algorithm (rule P10).
  virtual bool Has(const Call& call) const = 0;
  virtual bool KeepsOrder(const Call& call, absl::string_view algorithm, int members) const = 0;
  // Enqueues calls that start together. All members make the same calls in the same order.
  virtual absl::Status Enqueue(int group, absl::Span<const Call> calls, int stream) = 0;
};

// One rank's access to the other ranks. One thread uses it, except for Wake, Abort and AbortReason, which any thread
// may call.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Limits how long the transport may wait inside a call. It waits inside calls only during set-up, when it connects
  // and other ranks must take part.
  virtual void SetTimeout([[maybe_unused]] std::chrono::nanoseconds timeout) {}

  // From now on transfers may be in the device's memory. The device must outlive the endpoint. Called once, before the
  // first transfer. Returns Unimplemented if the transport moves host memory only; executor/transports/staged.h then
  // copies between device and host.
  virtual absl::Status UseDevice(ComputeDevice* device) {
    return device->asynchronous() ? absl::UnimplementedError("the transport moves memory of the host only")
                                  : absl::OkStatus();
  }
  // Number of this process's ranks that use the device, including this one.
  virtual int ranks_on_device() const { return 1; }
  // True if a transfer or collective blocks its stream until the other side takes part. If false, enqueued work waits
  // only for work that was enqueued before it, and streams may share a hardware queue of the device in any way.
  virtual bool holds_streams() const { return false; }
  // Number of device streams that the transport itself works on.
  virtual int own_streams() const { return 0; }
  // Prepares the transfers on device streams that this rank will post, in list order. Each edge (peer, channel and
  // direction) is in the lists once or more. Buffers and connections are made here, so that no step makes any. All
  // ranks call it, after UseDevice; it may exchange messages.
  virtual absl::Status Connect(absl::Span<const Transfer* const> sends, absl::Span<const Transfer* const> receives) {
    return absl::OkStatus();
  }
  // Transfers posted between BeginGroup and EndGroup start together (rule P4).
  virtual absl::Status BeginGroup() { return absl::OkStatus(); }
  virtual absl::Status EndGroup() { return absl::OkStatus(); }
  // Null if the transport has no collectives of its own.
  virtual NativeCollectives* native_collectives() { return nullptr; }

  // Strict rendezvous: a send is not done before its receive has been posted. If the byte counts of a matched pair
  // differ, the whole job is aborted with an error that names both. Errors: the status of an abort.
  virtual absl::Status PostSend(Transfer* transfer) = 0;
  virtual absl::Status PostRecv(Transfer* transfer) = 0;

  // Makes progress without waiting. True if, since the last Poll or WaitForProgress that returned true, a transfer of
  // this rank may have become done or Wake was called. Errors: the status of an abort.
  virtual absl::StatusOr<bool> Poll() = 0;

  // Like Poll, but sleeps until the result is true or `timeout` has passed.
  virtual absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) = 0;

  // Ends this rank's current WaitForProgress, or its next one.
  virtual void Wake() = 0;

  // Gives up the job: from now on all ranks' calls return `status`. The first abort of a job wins; true if it came from
  // this rank. Once this call has returned, or another call has returned the status of an abort, the transport no
  // longer touches this rank's posted transfers or their memory.
  virtual bool Abort(const absl::Status& status) = 0;
  // The reason why the job was given up, or Ok. Any thread may call it.
  virtual absl::Status AbortReason() { return absl::OkStatus(); }

  // Records what this rank is doing, so that other ranks can report it if this process dies. Cheap.
  virtual void Note(int64_t step, int32_t action) = 0;

  // CheckPeers returns an error, such as "rank 2 died ...", if the process of some rank is known to have died. `last`
  // receives that rank and its last note. Always Ok where ranks share a process.
  struct LastNote {
    int rank = -1;
    int64_t step = 0;
    int32_t action = 0;
  };
  virtual absl::Status CheckPeers(LastNote* last) = 0;
};

struct TransportEntry {
  absl::string_view name;
  // Opens the endpoints of the ranks that live in this process, in rank order.
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> (*open)(int ranks);
  absl::string_view description;
};

// All known transports, sorted by name.
absl::Span<const TransportEntry> Transports();

// Finds a transport by name; "auto" is mpi under an MPI launcher, tcp where another launcher started this process
// (executor/job/bootstrap.h), and inproc otherwise. The NotFound error lists the known names.
absl::StatusOr<const TransportEntry*> FindTransport(absl::string_view name);

// Rank and size that a launcher gave to this process, and its rank among the processes of its node. Size 0 = there is
// no launcher.
struct LauncherRank {
  int rank = 0;
  int size = 0;
  int local_rank = 0;
};
LauncherRank RankFromLauncher();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_TRANSPORT_H_
