// What a collective moves, from its algorithm's plan (schedules/collective): what times and counted bytes follow from.
#ifndef WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_
#define WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_

#include <cstdint>
#include <vector>

#include "schedules/collective/plan.h"

namespace weft::sim {

// One of its buffers, whole: what a reduce-scatter starts from, what an all-gather ends with.
struct CollectivePart {
  int64_t elements = 0;
  int64_t element_bytes = 0;
  // The members' contributions are added one by one, so they travel as `direct` sends them (rule P10: floating-point
  // numbers into EXACT192).
  bool one_by_one = false;

  friend bool operator==(const CollectivePart&, const CollectivePart&) = default;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  const CollectiveEntry* algorithm = nullptr;
  std::vector<CollectivePart> parts;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// Rounds that are alike, of messages of at most `bytes` each.
struct CollectivePhase {
  CollectiveStage stage;
  double bytes = 0;
};

// In order: the parts that travel by the call's algorithm, then those that travel one by one. Empty for one member.
std::vector<CollectivePhase> CollectivePhases(const CollectiveCall& call, int64_t members);

// What a member sends, on average and rounded up, each message counted as the longest of its round. Saturates.
int64_t CollectiveBytesSent(const CollectiveCall& call, int64_t members);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_COLLECTIVE_CALL_H_
