// The messages of a collective, from its algorithm's plan (schedules/collective). Times and counted bytes follow from
// them.
#ifndef WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_
#define WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_

#include <cstdint>
#include <vector>

#include "schedules/collective/plan.h"

namespace weft::sim {

// One whole buffer of a collective: the input of a reduce-scatter, or the result of an all-gather.
struct CollectivePart {
  int64_t elements = 0;
  int64_t element_bytes = 0;
  // True if each member's contribution must be added separately. The part then travels with the `direct` algorithm
  // (rule P10: floating-point numbers into EXACT192).
  bool one_by_one = false;

  friend bool operator==(const CollectivePart&, const CollectivePart&) = default;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  const CollectiveEntry* algorithm = nullptr;
  std::vector<CollectivePart> parts;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// Consecutive rounds that are alike. Each of their messages has at most `bytes` bytes.
struct CollectivePhase {
  CollectiveStage stage;
  double bytes = 0;
};

// Returns the phases in order: first the parts that travel by the call's algorithm, then the parts that travel one by
// one. Empty for one member.
std::vector<CollectivePhase> CollectivePhases(const CollectiveCall& call, int64_t members);

// Returns the bytes that a member sends: the average over the members, rounded up. Each message counts as the longest
// of its round. The result is at most the largest int64_t.
int64_t CollectiveBytesSent(const CollectiveCall& call, int64_t members);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_
