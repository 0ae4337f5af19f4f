// All-reduce over point-to-point transfers: runs the plans of schedules/collective on one rank, as a state machine that
// never waits.
#ifndef WEFT_EXECUTOR_COLLECTIVE_H_
#define WEFT_EXECUTOR_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/transport.h"
#include "proto/types.pb.h"
#include "schedules/collective/plan.h"

namespace weft {

// One buffer that is summed over the members. Source and destination are the same memory or do not overlap.
struct ReducedBuffer {
  const void* source = nullptr;
  void* destination = nullptr;
  DType dtype = DTYPE_UNSPECIFIED;
  int64_t elements = 0;
};

// A member as this rank reaches it.
struct CollectivePeer {
  int rank = 0;
  int channel = 0;
};

// destination[i] = the sum of parts[0][i], parts[1][i], ... in this order, in the dtype's compute type (fp64, fp32;
// fp32 for bf16, rounded once); exact for EXACT192. A part may be the destination. False if the dtype has no sum.
bool SumParts(DType dtype, int64_t elements, absl::Span<const void* const> parts, void* destination);

// The sum of every element depends on the plan, the members' order and the element's position in its own buffer
// (rule P10): buffers are cut into chunks one by one. Within that order they go through the plan in pieces, which
// bounds the scratch memory.
class AllReduce {
 public:
  // At most so much memory for what is received, whatever the group and the buffers (rule P7).
  static constexpr int64_t kScratchBytes = int64_t{4} << 20;

  // `members[self]` is the caller. Everything is allocated here, nothing later. InvalidArgument for a dtype without a
  // sum.
  static absl::StatusOr<std::unique_ptr<AllReduce>> Create(CollectivePlan plan, std::vector<CollectivePeer> members,
                                                           int self, std::vector<ReducedBuffer> buffers);

  // Begins; the sources must be ready. Then Advance until it returns true: the destinations hold the sums.
  absl::Status Start(Endpoint& endpoint);
  absl::StatusOr<bool> Advance(Endpoint& endpoint);

  // When the first messages of this round of use had both sides posted; 0 for one member.
  int64_t start_ns() const { return start_ns_; }
  // A member that it waits for, or -1.
  int waiting_for() const;
  int64_t scratch_bytes() const { return static_cast<int64_t>(scratch_.size()); }

 private:
  // What this member does in one round: messages out, and in, sorted by (chunk, source).
  struct Round {
    std::vector<CollectiveStep> sends;
    std::vector<CollectiveStep> receives;
  };
  // Of every chunk of a buffer, up to `length` elements from its element `from` on.
  struct Piece {
    size_t buffer = 0;
    int64_t from = 0;
    int64_t length = 0;
  };
  // Consecutive pieces that go through the plan together.
  struct Batch {
    size_t first = 0;
    size_t last = 0;
  };

  AllReduce() = default;
  void CopySources() const;
  absl::Status PostRound(Endpoint& endpoint);
  void FinishRound();
  void CutIntoBatches();
  // A piece's share of a chunk.
  void* Data(const Piece& piece, int chunk) const;
  int64_t Elements(const Piece& piece, int chunk) const;

  CollectivePlan plan_;
  std::vector<CollectivePeer> members_;
  int self_ = 0;
  std::vector<ReducedBuffer> buffers_;
  std::vector<Round> rounds_;
  std::vector<Piece> pieces_;
  std::vector<Batch> batches_;
  // Receives that cannot go to their place at once, in order of posting.
  std::vector<std::byte> scratch_;
  std::unique_ptr<Transfer[]> transfers_;
  size_t used_transfers_ = 0;
  std::vector<const void*> parts_;

  size_t batch_ = 0;
  size_t round_ = 0;
  int64_t start_ns_ = 0;
};

}  // namespace weft

#endif  // WEFT_EXECUTOR_COLLECTIVE_H_
