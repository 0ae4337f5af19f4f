// What a network leaves out of a machine that the ranks of a program use, to be said beside a prediction.
#ifndef WEFT_SIMULATOR_NETWORK_NETWORK_NOTES_H_
#define WEFT_SIMULATOR_NETWORK_NETWORK_NOTES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::sim {

// One line each, naming the network that has it; none if nothing is left out. Of all networks:
//   a placement  that names devices of more ranks than the program has
// Of "analytic" and "flow":
//   a last node  with fewer ranks than the others, and a ring that has fewer members there
// Of "analytic" and "nccl":
//   bridges      ranks of one node are below several: messages that meet at a bridge do not slow each other down
//   a torus      with ranks on several nodes: nor do those that meet on a link between nodes
// Of "analytic" alone:
//   rings        members of a ring on one node do not follow each other: rings go in order of ranks (rule P10), while
//                communication libraries order them by node
// None of a program that does not fit the cluster.
std::vector<std::string> NotesOnNetwork(const Program& program, const Cluster& cluster, absl::string_view network);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NETWORK_NOTES_H_
