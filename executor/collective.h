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
// (rule P10): buffers are cut one by one. They go through the plan in batches, which bounds the scratch memory.
class AllReduce {
 public:
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

 private:
  // What this member does in one round: messages out, and in, sorted by (chunk, source).
  struct Round {
    std::vector<CollectiveStep> sends;
    std::vector<CollectiveStep> receives;
  };
  // Consecutive buffers that go through the plan together.
  struct Batch {
    size_t first = 0;
    size_t last = 0;
  };

  AllReduce() = default;
  void CopySources() const;
  absl::Status PostRound(Endpoint& endpoint);
  void FinishRound();
  void* ChunkData(const ReducedBuffer& buffer, int chunk) const;
  int64_t ChunkElements(const ReducedBuffer& buffer, int chunk) const;

  CollectivePlan plan_;
  std::vector<CollectivePeer> members_;
  int self_ = 0;
  std::vector<ReducedBuffer> buffers_;
  std::vector<Round> rounds_;
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
