// The rings that a collective uses at the same time. Each ring carries an equal share of the bytes.
#ifndef WEFT_SIMULATOR_NETWORK_FLOW_RINGS_H_
#define WEFT_SIMULATOR_NETWORK_FLOW_RINGS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace weft::sim {

// Returns rings over the members 0..n-1; `nodes` has the node of each. A ring is an order of the members: each sends to
// the next one, the last to the first. Members of a node follow each other; nodes come in the order of their first
// members.
//
// Over several nodes, the number of rings is the number of members on the node with the fewest members, so that every
// interface of that node is used. Ring j enters a node at its j-th member and leaves it at the member before (around).
// It passes the next node in the opposite direction. So messages between nodes stay on one rail:
//   two nodes of 4:   ring 0: 0 1 2 3 | 7 6 5 4     ring 1: 1 2 3 0 | 4 7 6 5     ...
// (With an odd number of nodes, messages into the first node leave their rail.) On one node there is one ring, in
// order.
//
// `linked`: every two members of a node have a link of their own, and all these links are alike. Let g be the number of
// members on every node. If g is even and at least four, rings pass a node in g orders that together use each link in
// each direction once (Walecki's zigzags and their reverses; Alspach, see below). A link then carries 1/g of a message
// instead of (g-1)/g. Ring j enters at member j and leaves at j + g/2; it passes the next node in the opposite
// direction:
//   two nodes of 4:   ring 0: 0 1 3 2 | 6 7 5 4     ring 1: 1 2 0 3 | 7 4 6 5     ...
std::vector<std::vector<int32_t>> RotatedRings(absl::Span<const int64_t> nodes, bool linked = false);

// Returns the fraction of the rings that use the same link of a member inside its node (without `linked`: the same
// port), if the rings are RotatedRings of g members on each of several nodes.
double InsidePart(int64_t g, bool linked);

// Returns rings over 0..n-1, n >= 2, for members with a link between every two. Each link in each direction is in the
// same number of rings, so that together they move what n - 1 links carry:
//   n = 2         one ring
//   odd n         n - 1 rings, no two with a message in common
//   even n <= 16  (n - 1) (n - 2) rings, n - 2 on each link
//   even n > 16   n - 2 rings, no two with a message in common; they leave one of a member's n - 1 links idle
// Source: Alspach, "The wonderful Walecki construction", Bull. ICA 52, 2008.
std::vector<std::vector<int32_t>> BalancedRings(int32_t n);

// Returns the number of a member's links that BalancedRings(n) together keep busy in one direction: the number of rings
// divided by the largest number of rings on one link.
int64_t BalancedLinks(int64_t n);

// The models use links between every two members of a node only if the node has at most this many members.
inline constexpr int64_t kMaxLinkedMembers = 64;

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_FLOW_RINGS_H_
