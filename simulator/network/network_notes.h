// Notes for users about the properties of their machine that a network model ignores.
#ifndef WEFT_SIMULATOR_NETWORK_NETWORK_NOTES_H_
#define WEFT_SIMULATOR_NETWORK_NETWORK_NOTES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::sim {

// Returns one line for each thing that the network model ignores, with the name of a network that models it. The list
// is empty if nothing is ignored. For all networks:
//   a placement  that names devices of more ranks than the program has
// For "analytic" and "flow":
//   a last node  with fewer ranks than the others, and a ring that has fewer members there
// For "analytic" and "nccl":
//   bridges      above the ranks of one node: messages that meet at a bridge do not slow each other down
//   a torus      with ranks on several nodes: messages that meet on a link between nodes do not slow each other down
// For "analytic" alone:
//   rings        members of a ring on one node do not follow each other: rings go in order of ranks (rule P10), while
//                communication libraries order them by node
// A program that does not fit the cluster gets no notes.
std::vector<std::string> NotesOnNetwork(const Program& program, const Cluster& cluster, absl::string_view network);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NETWORK_NOTES_H_
