// The part of one member in a collective: its messages round by round, and where received data lies until it is used.
#ifndef WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_ROUTE_H_
#define WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_ROUTE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/collective/plan.h"

namespace weft::exec {

// The place of a chunk that is in no scratch slot: its own place in the destination or, for a reduce-scatter, in the
// source, which must not be written.
inline constexpr int kHome = -1;

struct RouteMessage {
  int chunk = 0;
  int peer = 0;
  // Where the chunk is sent from or received to: a slot or kHome.
  int slot = kHome;
};

// The messages of one chunk that arrive in one round: receives [first, last) of the round.
struct RouteResult {
  size_t first = 0;
  size_t last = 0;
  bool reduces = false;
  // Where the member's own term is (if `reduces`), and where the result is stored.
  int own_slot = kHome;
  int result_slot = kHome;
  // Reduce-scatter only: the result is the member's range of the sum, and is stored in the destination.
  bool completes = false;
};

struct RouteRound {
  std::vector<RouteMessage> sends;
  // Sorted by (chunk, peer).
  std::vector<RouteMessage> receives;
  std::vector<RouteResult> results;
};

struct CollectiveRoute {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int members = 1;
  int self = 0;
  int chunks = 1;
  std::vector<RouteRound> rounds;
  // Slots that are in use at one time: by this member, and the maximum over all members. All members cut buffers into
  // pieces by the maximum, so their pieces agree.
  int slots = 0;
  int most_slots = 0;
};

// InvalidArgument if `self` is not a member, or if the plan sends a member's own range on after its sum is complete.
absl::StatusOr<CollectiveRoute> RouteOfMember(const CollectivePlan& plan, int self);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_ROUTE_H_
