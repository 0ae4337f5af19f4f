// How long the rounds of a collective take on an idle network: each as long as its slowest member, whoever sends what
// to whom (CollectivePhase).
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

// What a message takes from one member to another.
struct MessagePath {
  double overhead_seconds = 0;
  double latency_seconds = 0;
  // Of a message inside a node. Those between nodes share GroupPaths::NodeBandwidth.
  double bytes_per_second = 0;
  // By a link that only these two have. Messages without one go by the member's port.
  bool own_link = false;
};

// The members of a group, 0 to size() - 1, where they are placed.
class GroupPaths {
 public:
  virtual ~GroupPaths() = default;

  virtual int64_t size() const = 0;
  // Numbered from 0, without gaps.
  virtual int32_t NodeOf(int64_t member) const = 0;
  virtual absl::StatusOr<MessagePath> Between(int64_t source, int64_t destination) const = 0;
  // Bytes per second that all members on a node together send to other nodes, and receive from them.
  virtual absl::StatusOr<double> NodeBandwidth(int32_t node) const = 0;
  // Nodes below one switch whose links up are oversubscribed, numbered from 0, without gaps.
  virtual int32_t PlaceOf(int32_t) const { return 0; }
  // Bytes per second that all members of a place together send to other places, and receive from them.
  virtual absl::StatusOr<double> PlaceBandwidth(int32_t place) const;
  // By the switches that sum and multicast for all members; else FailedPrecondition, naming what is missing.
  virtual absl::StatusOr<SwitchWay> Switches() const = 0;
  // That of collectives of the group: the largest from a member to the next, or from the first to any.
  virtual absl::StatusOr<double> Latency() const = 0;
};

// A member sends the messages of a round one by one, and receives as many at the same time. A message inside a node
// takes its overhead and bytes / bytes_per_second; one between nodes its overhead, and besides, all that leaves a node
// (or enters it) in the round goes through NodeBandwidth together, and all that leaves a place through PlaceBandwidth;
// the slower counts. Of messages to every other member that is, with g of the n members on a node and one place,
//     (g-1) (overhead + bytes / B) + (n-g) (overhead + g bytes / NodeBandwidth).
// Bytes over links of two members' own move at the same time, beside those by the port: of g members that all have
// links to each other,
//     (g-1) overhead + bytes / B,
// and where these are alike a ring's messages are cut over the rings of flow_rings.h: overhead + bytes / (B links).
// To and from a switch a member's messages take as long as those to another member below it, up and down at once. Over
// several nodes that is beside what leaves a node, and enters it: of all its members together each byte once, at
// NodeBandwidth, in messages of equal parts; the slower of the two counts, and the latencies of both
// (switch_reduces.h).
// The next round begins when the last message of this one has arrived.
struct RoundTime {
  double seconds = 0;
  double latency_seconds = 0;
};
absl::StatusOr<RoundTime> StageRoundTime(const CollectivePhase& phase, const GroupPaths& paths);

// All rounds of all phases: finished `latency`, that of the group, after the occupancy.
absl::StatusOr<TransferTime> RoundsTime(absl::Span<const CollectivePhase> phases, const GroupPaths& paths);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_COLLECTIVE_COST_H_
