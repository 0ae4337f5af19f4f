// The rings that a collective over some members runs on at the same time, each with an even share of the bytes.
#ifndef WEFT_SIMULATOR_NETWORK_FLOW_RINGS_H_
#define WEFT_SIMULATOR_NETWORK_FLOW_RINGS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace weft::sim {

// Orders of the members 0..n-1 that are on the nodes `nodes`, a message going from each to the one behind it and from
// the last to the first. Members of a node follow each other; nodes come in the order of their first members.
//
// Over several nodes there are as many rings as members on the node with fewest, so that every interface of these is
// used: ring j enters a node at its j-th member and leaves it at the one before (around), the next node the other way
// round. So messages between nodes stay on one rail:
//   two nodes of 4:   ring 0: 0 1 2 3 | 7 6 5 4     ring 1: 1 2 3 0 | 4 7 6 5     ...
// (With an odd number of nodes those into the first node do not.) On one node there is one ring, in order.
//
// `linked`: members of a node have a link between every two, all alike. If g, an even number of four or more, are on
// every node, rings go through a node in g orders that together have each link in each direction once (Walecki's
// zigzags and their reverses; Alspach, see below), so that it carries 1/g of a message instead of (g-1)/g; ring j
// enters at member j and leaves at j + g/2, and the next node the other way round:
//   two nodes of 4:   ring 0: 0 1 3 2 | 6 7 5 4     ring 1: 1 2 0 3 | 7 4 6 5     ...
std::vector<std::vector<int32_t>> RotatedRings(absl::Span<const int64_t> nodes, bool linked = false);

// Of a message of a ring over several nodes, what the link, or the port, of a member carries inside its node when the
// message is cut over RotatedRings of g members on every node.
double InsidePart(int64_t g, bool linked);

// Rings over 0..n-1, n >= 2, for members with a link between every two: each link in each direction is in as many rings
// as any other, so that together they move what n - 1 links carry. For odd n these are n - 1, no two with the same
// message. For even n up to 16 they are (n - 1) (n - 2), with n - 2 on each link; for larger ones n - 2, no two with
// the same message, which leave one of n - 1 links idle. Source: Alspach, "The wonderful Walecki construction", Bull.
// ICA 52, 2008.
std::vector<std::vector<int32_t>> BalancedRings(int32_t n);

// How many links of a member these rings together keep busy in one direction: what they have in all, over how many of
// them are on the link that most are on.
int64_t BalancedLinks(int64_t n);

// Groups of more members on one node are not looked at for a link between every two.
inline constexpr int64_t kMostLinkedMembers = 64;

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_FLOW_RINGS_H_
