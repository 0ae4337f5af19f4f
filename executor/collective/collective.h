// Collectives over point-to-point transfers: runs the plans of schedules/collective on one rank, as a state machine
// that never waits. Where the transport has collectives of its own (NativeCollectives), they do what they can.
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

// One buffer of a collective. All-reduce: source and destination have `elements` elements and are the same memory or do
// not overlap. All-gather: the destination has those of all members; the source is the member's range of it or does not
// overlap with it. Reduce-scatter: `elements` is a multiple of the members, the destination has the member's share of
// them and does not overlap with the source.
struct CollectiveBuffer {
  const void* source = nullptr;
  DType dtype = DTYPE_UNSPECIFIED;
  int64_t elements = 0;
  void* destination = nullptr;
  // Of reduce-scatters: the destination may have another type (CanAddTo), and the sum may be added to what it holds.
  DType destination_dtype = DTYPE_UNSPECIFIED;
  bool accumulate = false;
};

// A member as this rank reaches it.
struct CollectivePeer {
  int rank = 0;
  int channel = 0;
};

// A collective that is ready to be run, again and again. What it makes of an element depends on the plan, the members'
// order and the element's position in its own buffer (rule P10): buffers are cut into chunks one by one. Within that
// order they go through the plan in pieces, which bounds the scratch memory.
class PreparedCollective {
 public:
  CollectiveKind kind() const { return kind_; }
  // Rule P10: false if the transport's own collectives sum some of it in another order than that of the algorithm.
  bool keeps_order() const { return keeps_order_; }

 private:
  friend class Communicator;

  // Of every chunk of a buffer, up to `length` elements from its element `from` on. Its part of a slot begins at byte
  // `offset`.
  struct Piece {
    size_t buffer = 0;
    int64_t from = 0;
    int64_t length = 0;
    int64_t offset = 0;
  };
  // Consecutive pieces that go through a route together. Slots are so many bytes.
  struct Batch {
    const CollectiveRoute* route = nullptr;
    size_t first = 0;
    size_t last = 0;
    int64_t slot_bytes = 0;
  };

  // A reduce-scatter by the transport that ends in scratch memory, for it is to be added or converted: so many elements
  // of the member's share from its element `from` on. One that is not the whole share is first gathered into scratch.
  struct NativePiece {
    size_t buffer = 0;
    int64_t from = 0;
    int64_t length = 0;
  };

  // Elements of the whole: what is cut into chunks.
  int64_t WholeElements(const CollectiveBuffer& buffer, int members) const {
    return kind_ == CollectiveKind::kAllGather ? buffer.elements * members : buffer.elements;
  }

  CollectiveKind kind_ = CollectiveKind::kAllReduce;
  std::vector<CollectiveBuffer> buffers_;
  std::vector<Piece> pieces_;
  std::vector<Batch> batches_;
  // By the transport, before the batches: from and to the buffers themselves, and in pieces.
  std::vector<NativeCollectives::Call> native_calls_;
  std::vector<NativePiece> native_pieces_;
  // By buffer.
  std::vector<bool> native_;
  bool keeps_order_ = true;
};

// Where the collectives of a communicator run.
struct CommunicatorPlace {
  // All buffers are in the device's memory, and the collectives take their places in the order of the stream. Null:
  // memory of the host, at once.
  ComputeDevice* device = nullptr;
  int stream = -1;
  // The transport's own collectives; null: there are none. All members create their communicators with it.
  NativeCollectives* native = nullptr;
  // What the transport calls the group in its messages.
  std::string name = {};
};

// What the collectives of one (group, purpose) share: they run one at a time (rule P3), so one scratch is enough.
class Communicator {
 public:
  // At most so much memory for what is received, whatever the group and the buffers (rule P7).
  static constexpr int64_t kScratchBytes = int64_t{4} << 20;

  // `members[self]` is the caller. InvalidArgument if there is no such member.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(std::vector<CollectivePeer> members, int self,
                                                              const CommunicatorPlace& place = {});

  // All that a collective needs is planned here; the communicator outlives it. InvalidArgument, naming
  // the buffer, for dtypes without a sum or a conversion and for sizes that cannot be shared equally. A reduce-scatter
  // of floating-point sources into EXACT192 adds the members' contributions one by one, so its messages are those of
  // `direct` whatever the algorithm.
  absl::StatusOr<std::unique_ptr<PreparedCollective>> Prepare(const CollectiveEntry& algorithm, CollectiveKind kind,
                                                              std::vector<CollectiveBuffer> buffers);

  // Allocates what all prepared collectives need: nothing is allocated later. Start does it otherwise.
  absl::Status AllocateScratch();
  // Appends what Endpoint::Connect is to know of the collective's messages.
  void AppendTransfers(const PreparedCollective& collective, std::deque<Transfer>* sends,
                       std::deque<Transfer>* receives) const;

  // Begins; the sources must be ready (on an asynchronous device: for what is enqueued on the stream), and no other be
  // under way. Then Advance until it returns true: the destinations hold the results, for what is enqueued on the
  // stream from then on.
  absl::Status Start(Endpoint& endpoint, const PreparedCollective& collective);
  absl::StatusOr<bool> Advance(Endpoint& endpoint);

  // When the first messages of the last one begun had both sides posted; 0 if it had none.
  int64_t start_ns() const { return start_ns_; }
  // A member that it waits for, or -1.
  int waiting_for() const;
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int members() const { return static_cast<int>(members_.size()); }

 private:
  using Piece = PreparedCollective::Piece;
  using Batch = PreparedCollective::Batch;

  Communicator() = default;
  absl::StatusOr<const CollectiveRoute*> Route(const CollectiveEntry& algorithm, CollectiveKind kind);
  // Appends pieces and batches for those of its buffers.
  void Cut(PreparedCollective& collective, const CollectiveRoute& route, absl::Span<const size_t> buffers) const;
  void MakeRoom(const PreparedCollective& collective);
  // Whether the transport does this buffer; then it is planned.
  bool PlanNative(PreparedCollective& collective, size_t buffer, absl::string_view algorithm) const;
  // The call that makes a piece of a reduce-scatter in scratch memory.
  NativeCollectives::Call PieceCall(const PreparedCollective& collective,
                                    const PreparedCollective::NativePiece& piece) const;
  absl::Status RunNative(const PreparedCollective& collective);
  absl::Status CopyOwn(const PreparedCollective& collective);
  absl::Status PostRound(Endpoint& endpoint);
  absl::Status FinishRound();
  absl::Status FinishResult(const Piece& piece, const RouteRound& round, const RouteResult& result);
  // The message's transfer, but for its memory, in a batch of a collective.
  void Describe(const PreparedCollective& collective, const Batch& batch, const Piece& piece,
                const RouteMessage& message, Transfer* transfer) const;
  int64_t Elements(const PreparedCollective& collective, const Batch& batch, const Piece& piece, int chunk) const;
  int64_t Elements(const Piece& piece, int chunk) const {
    return Elements(*current_, current_->batches_[batch_], piece, chunk);
  }
  std::byte* Slot(const Piece& piece, int slot) const;
  // A piece's share of a chunk, in a slot or at home.
  std::byte* Data(const Piece& piece, int chunk, int slot) const;

  std::vector<CollectivePeer> members_;
  int self_ = 0;
  // Of a communicator on memory of the host.
  std::unique_ptr<ComputeDevice> host_;
  ComputeDevice* device_ = nullptr;
  int stream_ = -1;
  NativeCollectives* native_ = nullptr;
  // The transport's number for it.
  int native_group_ = -1;
  // By algorithm and kind.
  std::map<std::pair<absl::string_view, CollectiveKind>, std::unique_ptr<CollectiveRoute>> routes_;
  // What is needed, and what is there.
  int64_t scratch_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  // Where it is on the host.
  std::vector<std::byte> host_scratch_;
  std::unique_ptr<Transfer[]> transfers_;
  size_t most_transfers_ = 0;
  size_t used_transfers_ = 0;
  std::vector<const void*> parts_;

  // Under way; null = none.
  const PreparedCollective* current_ = nullptr;
  size_t batch_ = 0;
  size_t round_ = 0;
  int64_t start_ns_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_H_
