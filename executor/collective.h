// Collectives over point-to-point transfers: runs the plans of schedules/collective on one rank, as a state machine
// that never waits.
#ifndef WEFT_EXECUTOR_COLLECTIVE_H_
#define WEFT_EXECUTOR_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/collective_route.h"
#include "executor/transport.h"
#include "proto/types.pb.h"
#include "schedules/collective/plan.h"

namespace weft {

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

  // Elements of the whole: what is cut into chunks.
  int64_t WholeElements(const CollectiveBuffer& buffer, int members) const {
    return kind_ == CollectiveKind::kAllGather ? buffer.elements * members : buffer.elements;
  }

  CollectiveKind kind_ = CollectiveKind::kAllReduce;
  std::vector<CollectiveBuffer> buffers_;
  std::vector<Piece> pieces_;
  std::vector<Batch> batches_;
};

// What the collectives of one (group, purpose) share: they run one at a time (rule P3), so one scratch is enough.
class Communicator {
 public:
  // At most so much memory for what is received, whatever the group and the buffers (rule P7).
  static constexpr int64_t kScratchBytes = int64_t{4} << 20;

  // `members[self]` is the caller. InvalidArgument if there is no such member.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(std::vector<CollectivePeer> members, int self);

  // All that a collective needs is allocated here, nothing later; the communicator outlives it. InvalidArgument, naming
  // the buffer, for dtypes without a sum or a conversion and for sizes that cannot be shared equally. A reduce-scatter
  // of floating-point sources into EXACT192 adds the members' contributions one by one, so its messages are those of
  // `direct` whatever the algorithm.
  absl::StatusOr<std::unique_ptr<PreparedCollective>> Prepare(const CollectiveEntry& algorithm, CollectiveKind kind,
                                                              std::vector<CollectiveBuffer> buffers);

  // Begins; the sources must be ready, and no other be under way. Then Advance until it returns true: the destinations
  // hold the results.
  absl::Status Start(Endpoint& endpoint, const PreparedCollective& collective);
  absl::StatusOr<bool> Advance(Endpoint& endpoint);

  // When the first messages of the last one begun had both sides posted; 0 if it had none.
  int64_t start_ns() const { return start_ns_; }
  // A member that it waits for, or -1.
  int waiting_for() const;
  int64_t scratch_bytes() const { return static_cast<int64_t>(scratch_.size()); }
  int members() const { return static_cast<int>(members_.size()); }

 private:
  using Piece = PreparedCollective::Piece;
  using Batch = PreparedCollective::Batch;

  Communicator() = default;
  absl::StatusOr<const CollectiveRoute*> Route(const CollectiveEntry& algorithm, CollectiveKind kind);
  // Appends pieces and batches for those of its buffers.
  void Cut(PreparedCollective& collective, const CollectiveRoute& route, absl::Span<const size_t> buffers) const;
  void MakeRoom(const PreparedCollective& collective);
  void CopyOwn(const PreparedCollective& collective) const;
  absl::Status PostRound(Endpoint& endpoint);
  void FinishRound();
  void FinishResult(const Piece& piece, const RouteRound& round, const RouteResult& result);
  int64_t Elements(const Piece& piece, int chunk) const;
  std::byte* Slot(const Piece& piece, int slot) const;
  // A piece's share of a chunk, in a slot or at home.
  std::byte* Data(const Piece& piece, int chunk, int slot) const;

  std::vector<CollectivePeer> members_;
  int self_ = 0;
  // By algorithm and kind.
  std::map<std::pair<absl::string_view, CollectiveKind>, std::unique_ptr<CollectiveRoute>> routes_;
  std::vector<std::byte> scratch_;
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

}  // namespace weft

#endif  // WEFT_EXECUTOR_COLLECTIVE_H_
