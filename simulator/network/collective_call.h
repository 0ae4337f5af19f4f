// The messages of a collective, from its algorithm's plan (schedules/collective). Times and counted bytes follow from
// them.
#ifndef WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_
#define WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_

#include <cstdint>
#include <vector>

#include "schedules/collective/plan.h"

namespace weft::sim {

// One whole buffer of a collective: what a reduce-scatter starts from, or what an all-gather ends with.
struct CollectivePart {
  int64_t elements = 0;
  int64_t element_bytes = 0;
  // True if the members' contributions are added one by one, so that they travel as `direct` sends them (rule P10:
  // floating-point numbers into EXACT192).
  bool one_by_one = false;

  friend bool operator==(const CollectivePart&, const CollectivePart&) = default;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  const CollectiveEntry* algorithm = nullptr;
  std::vector<CollectivePart> parts;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// Rounds that are alike, with messages of at most `bytes` bytes each.
struct CollectivePhase {
  CollectiveStage stage;
  double bytes = 0;
};

// Returns the phases in order: first the parts that travel by the call's algorithm, then the parts that travel one by
// one. Empty for one member.
std::vector<CollectivePhase> CollectivePhases(const CollectiveCall& call, int64_t members);

// Returns the bytes that a member sends, on average and rounded up. Each message counts as the longest of its round.
// Saturates.
int64_t CollectiveBytesSent(const CollectiveCall& call, int64_t members);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_
