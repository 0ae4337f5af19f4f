// Times of the rounds of a collective on an idle network. A round takes as long as its slowest member, for every
// pattern of messages (CollectivePhase).
#ifndef WEFT_SIMULATOR_NETWORK_COLLECTIVE_COST_H_
#define WEFT_SIMULATOR_NETWORK_COLLECTIVE_COST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "simulator/network/collective_call.h"
#include "simulator/network/network_model.h"
#include "simulator/network/switch_reduces.h"

namespace weft::sim {

// Figures of the path of a message from one member to another.
struct MessagePath {
  double overhead_seconds = 0;
  double latency_seconds = 0;
  // Only for messages inside a node. Messages between nodes share GroupPaths::NodeBandwidth.
  double bytes_per_second = 0;
  // True if these two members have a link to themselves. All other messages go through the member's port.
  bool own_link = false;
};

// The members of a group, 0 to size() - 1, and where they are placed.
class GroupPaths {
 public:
  virtual ~GroupPaths() = default;

  virtual int64_t size() const = 0;
  // Returns the node of a member. Nodes are numbered from 0, without gaps.
  virtual int32_t NodeOf(int64_t member) const = 0;
  virtual absl::StatusOr<MessagePath> Between(int64_t source, int64_t destination) const = 0;
  // Bytes per second that all members on a node together send to other nodes, and receive from them.
  virtual absl::StatusOr<double> NodeBandwidth(int32_t node) const = 0;
  // Returns the place of a node. A place consists of the nodes below one switch whose uplinks are oversubscribed.
  // Places are numbered from 0, without gaps.
  virtual int32_t PlaceOf(int32_t) const { return 0; }
  // Bytes per second that all members of a place together send to other places, and receive from them.
  virtual absl::StatusOr<double> PlaceBandwidth(int32_t place) const;
  // Returns the way through the switches that sum and multicast for all members. If some switch cannot, returns
  // FailedPrecondition, which names what is missing.
  virtual absl::StatusOr<SwitchWay> Switches() const = 0;
  // Latency of the group's collectives: the largest latency from a member to the next, or from the first to any other.
  virtual absl::StatusOr<double> Latency() const = 0;
};

// The time of one round. A member sends the messages of a round one by one. It receives messages at the same time.
//
// A message inside a node takes its overhead and bytes / bytes_per_second. A message between nodes takes its overhead;
// in addition, everything that leaves (or enters) a node in the round shares NodeBandwidth, and everything that leaves
// a place shares PlaceBandwidth; the slower of the two counts. For messages to every other member, with g of the n
// members on a node, bytes_per_second = B and only one place, this gives
//     (g-1) (overhead + bytes / B) + (n-g) (overhead + g bytes / NodeBandwidth).
//
// Links that join two members only (own_link) all move bytes at the same time, also while the member's port does. For g
// members that all have such links to each other, this gives
//     (g-1) overhead + bytes / B.
// If these links are alike and all members are on one node, each message of a ring is cut over the rings of
// flow_rings.h and takes overhead + bytes / (B links), with links = BalancedLinks(g).
//
// A member's messages to and from a switch take as long as messages to another member below the switch; data moves up
// and down at the same time. Over several nodes, each byte also leaves and enters a node once for all its members
// together, at NodeBandwidth, in messages of equal parts. The slower of the times inside and between the nodes counts,
// and the latencies of both add up (switch_reduces.h).
//
// The next round begins when the last message of this one has arrived.
struct RoundTime {
  double seconds = 0;
  double latency_seconds = 0;
};
absl::StatusOr<RoundTime> StageRoundTime(const CollectivePhase& phase, const GroupPaths& paths);

// Returns the time of all rounds of all phases. The collective finishes one GroupPaths::Latency() after the end of its
// occupancy.
absl::StatusOr<TransferTime> RoundsTime(absl::Span<const CollectivePhase> phases, const GroupPaths& paths);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_COLLECTIVE_COST_H_
