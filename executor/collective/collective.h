// Collectives over point-to-point transfers: runs the plans of schedules/collective on one rank, as a state machine
// that never waits. Where the transport has collectives of its own (NativeCollectives), they run what they support.
#ifndef WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_H_
#define WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/collective/collective_route.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "proto/types.pb.h"
#include "schedules/collective/plan.h"

namespace weft::exec {

// One buffer of a collective. All-reduce: source and destination have `elements` elements each and are the same memory
// or do not overlap. All-gather: the destination has the elements of all members. The source is the member's range of
// the destination, or does not overlap with it. Reduce-scatter: `elements` is a multiple of the number of members. The
// destination has the member's share of the elements and does not overlap with the source.
struct CollectiveBuffer {
  const void* source = nullptr;
  DType dtype = DTYPE_UNSPECIFIED;
  int64_t elements = 0;
  void* destination = nullptr;
  // Reduce-scatter only: the destination may have another type (CanAddTo), and the sum may be added to the values that
  // the destination holds.
  DType destination_dtype = DTYPE_UNSPECIFIED;
  bool accumulate = false;
};

// A member, as this rank addresses it.
struct CollectivePeer {
  int rank = 0;
  int channel = 0;
};

// A collective that is ready to run any number of times. The result for an element depends only on the plan, the
// members' order and the element's position in its own buffer (rule P10), because each buffer is cut into chunks on its
// own. The plan runs on one piece of each chunk at a time, which bounds the scratch memory.
class PreparedCollective {
 public:
  CollectiveKind kind() const { return kind_; }
  // Rule P10: false if the transport's own collectives sum some buffer in another order than the algorithm does.
  bool keeps_order() const { return keeps_order_; }

 private:
  friend class Communicator;

  // Up to `length` elements of every chunk of a buffer, from the chunk's element `from` on. In a scratch slot, the
  // piece begins at byte `offset`.
  struct Piece {
    size_t buffer = 0;
    int64_t from = 0;
    int64_t length = 0;
    int64_t offset = 0;
  };
  // Consecutive pieces [first, last) whose messages run through the rounds of a route together. Each scratch slot has
  // `slot_bytes` bytes.
  struct Batch {
    const CollectiveRoute* route = nullptr;
    size_t first = 0;
    size_t last = 0;
    int64_t slot_bytes = 0;
  };

  // A reduce-scatter that the transport runs into scratch memory, because the result must then be added to the
  // destination or converted. It covers `length` elements of the member's share, from element `from` on. If that is not
  // the whole share, the contributions are first copied into scratch memory.
  struct NativePiece {
    size_t buffer = 0;
    int64_t from = 0;
    int64_t length = 0;
  };

  // Elements of the whole array that is cut into chunks.
  int64_t WholeElements(const CollectiveBuffer& buffer, int members) const {
    return kind_ == CollectiveKind::kAllGather ? buffer.elements * members : buffer.elements;
  }

  CollectiveKind kind_ = CollectiveKind::kAllReduce;
  std::vector<CollectiveBuffer> buffers_;
  std::vector<Piece> pieces_;
  std::vector<Batch> batches_;
  // The transport runs these before the batches: calls on the buffers themselves, and pieces whose result goes to
  // scratch memory.
  std::vector<NativeCollectives::Call> native_calls_;
  std::vector<NativePiece> native_pieces_;
  // By buffer: true if the transport's own collectives run it.
  std::vector<bool> native_;
  bool keeps_order_ = true;
};

// Where the collectives of a communicator run.
struct CommunicatorPlace {
  // The device whose memory holds all buffers. Collectives run in the order of work on its stream `stream`. If the
  // device is null, the buffers are in host memory, and work on them is finished when the call returns.
  ComputeDevice* device = nullptr;
  int stream = -1;
  // The transport's own collectives; null if there are none. If one member's communicator has them, all members'
  // communicators must have them.
  NativeCollectives* native = nullptr;
  // The group's name in the transport's messages.
  std::string name = {};
};

// State that all collectives of one (group, purpose) share. They run one at a time (rule P3), so one scratch memory is
// enough.
class Communicator {
 public:
  // Upper bound on the scratch memory for received data, whatever the group and the buffers (rule P7).
  static constexpr int64_t kScratchBytes = int64_t{4} << 20;

  // `members[self]` is the caller. InvalidArgument if there is no such member.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(std::vector<CollectivePeer> members, int self,
                                                              const CommunicatorPlace& place = {});

  // Plans everything that the collective needs. The communicator must outlive the result. InvalidArgument for dtypes
  // without a sum or a conversion and for sizes that the members cannot share equally. A reduce-scatter of
  // floating-point sources into EXACT192 adds the members' contributions one by one, so it sends the messages of
  // `direct` whatever the algorithm.
  absl::StatusOr<std::unique_ptr<PreparedCollective>> Prepare(const CollectiveEntry& algorithm, CollectiveKind kind,
                                                              std::vector<CollectiveBuffer> buffers);

  // Allocates the scratch memory that all prepared collectives need, so that nothing is allocated later. Without this
  // call, Start allocates the memory.
  absl::Status AllocateScratch();
  // Appends the transfers of the collective's messages, as Endpoint::Connect needs them.
  void AppendTransfers(const PreparedCollective& collective, std::deque<Transfer>* sends,
                       std::deque<Transfer>* receives) const;

  // Starts the collective. The sources must be ready (on an asynchronous device: for work enqueued on the stream), and
  // no other collective may be under way. Call Advance until it returns true: the destinations then hold the results,
  // for work enqueued on the stream from then on.
  absl::Status Start(Endpoint& endpoint, const PreparedCollective& collective);
  absl::StatusOr<bool> Advance(Endpoint& endpoint);

  // Time at which both sides had posted the first messages of the latest collective; 0 if it had none.
  int64_t start_ns() const { return start_ns_; }
  // The rank of a member that the collective is waiting for, or -1.
  int waiting_for() const;
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int members() const { return static_cast<int>(members_.size()); }

 private:
  using Piece = PreparedCollective::Piece;
  using Batch = PreparedCollective::Batch;

  Communicator() = default;
  absl::StatusOr<const CollectiveRoute*> Route(const CollectiveEntry& algorithm, CollectiveKind kind);
  // Appends the pieces and batches of the collective's buffers with these indices.
  void Cut(PreparedCollective& collective, const CollectiveRoute& route, absl::Span<const size_t> buffers) const;
  void MakeRoom(const PreparedCollective& collective);
  // If the transport supports this buffer, plans it for the transport's own collectives and returns true.
  bool PlanNative(PreparedCollective& collective, size_t buffer, absl::string_view algorithm) const;
  // The call that makes a piece of a reduce-scatter in scratch memory.
  NativeCollectives::Call PieceCall(const PreparedCollective& collective,
                                    const PreparedCollective::NativePiece& piece) const;
  absl::Status RunNative(const PreparedCollective& collective);
  absl::Status CopyOwn(const PreparedCollective& collective);
  absl::Status PostRound(Endpoint& endpoint);
  absl::Status FinishRound();
  absl::Status FinishResult(const Piece& piece, const RouteRound& round, const RouteResult& result);
  // Fills in the transfer of a message in a batch of a collective, except for its memory.
  void Describe(const PreparedCollective& collective, const Batch& batch, const Piece& piece,
                const RouteMessage& message, Transfer* transfer) const;
  int64_t Elements(const PreparedCollective& collective, const Batch& batch, const Piece& piece, int chunk) const;
  int64_t Elements(const Piece& piece, int chunk) const {
    return Elements(*current_, current_->batches_[batch_], piece, chunk);
  }
  std::byte* Slot(const Piece& piece, int slot) const;
  // The memory of a piece's part of a chunk: in a slot, or in the chunk's own place (kHome).
  std::byte* Data(const Piece& piece, int chunk, int slot) const;

  std::vector<CollectivePeer> members_;
  int self_ = 0;
  // Set only for a communicator on host memory.
  std::unique_ptr<ComputeDevice> host_;
  ComputeDevice* device_ = nullptr;
  int stream_ = -1;
  NativeCollectives* native_ = nullptr;
  // The transport's number for the group; -1 = none.
  int native_group_ = -1;
  // Routes by algorithm and kind.
  std::map<std::pair<absl::string_view, CollectiveKind>, std::unique_ptr<CollectiveRoute>> routes_;
  // Scratch bytes that are needed, and scratch bytes that are allocated.
  int64_t scratch_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  // Owns `scratch_` if it is on the host.
  std::vector<std::byte> host_scratch_;
  std::unique_ptr<Transfer[]> transfers_;
  size_t most_transfers_ = 0;
  size_t used_transfers_ = 0;
  std::vector<const void*> parts_;

  // The collective under way; null = none.
  const PreparedCollective* current_ = nullptr;
  size_t batch_ = 0;
  size_t round_ = 0;
  int64_t start_ns_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_H_
