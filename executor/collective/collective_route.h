// What one member does in a collective: its messages round by round, and where what it receives lies until it is used.
#ifndef WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_ROUTE_H_
#define WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_ROUTE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/collective/plan.h"

namespace weft::exec {

// A place that is not one of the scratch slots: the chunk's own place. That is in the destination, or in the source of
// a reduce-scatter, which must not be written.
inline constexpr int kHome = -1;

struct RouteMessage {
  int chunk = 0;
  int peer = 0;
  // Where it is sent from, or received to: a slot or kHome.
  int slot = kHome;
};

// Messages that one chunk receives in one round: receives [first, last) of the round.
struct RouteResult {
  size_t first = 0;
  size_t last = 0;
  bool reduces = false;
  // Where the member's own term is (of `reduces`), and where the result goes.
  int own_slot = kHome;
  int result_slot = kHome;
  // Of a reduce-scatter: the result is the member's range of the sum, which goes to the destination.
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
  // Slots that are in use at one time, of this member and the most of any: all members cut alike what goes through in
  // pieces.
  int slots = 0;
  int most_slots = 0;
};

// InvalidArgument if `self` is no member, or the plan passes on the sum that is the member's own.
absl::StatusOr<CollectiveRoute> RouteOfMember(const CollectivePlan& plan, int self);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_COLLECTIVE_COLLECTIVE_ROUTE_H_
