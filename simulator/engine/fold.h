// Folding (rule P12): ranks that behave alike are simulated once.
//
// Ranks are split into classes: first by template and by kind and speed of their devices, then repeatedly by the times
// of their channels and communicators and by the classes of the ranks they meet there, until nothing changes (color
// refinement). Then two ranks of a class run the same entries. Their i-th channels take the same times and lead to the
// same channel of ranks of one class. Their i-th communicators take the same times and have members of the same classes
// on the same streams. So, by induction over time, whatever happens to a rank happens at the same instant to its whole
// class: to know when a communicator is complete it is enough to know one member of each class. Everything else that a
// rank waits for is either its own (streams, actions, choice of compute by P6, load) or common to all (step barrier).
//
// If transfers and collectives are flows over shared links (rule P12), channels, communicators and links are split
// along with ranks (link_classes.h). Whatever has one class then has one rate, and one flow stands for all flows of its
// class, with everything that they take of each link.
//
// Ranks are not folded if they share more than that (compute slots of a node), or if each step has a random cost of its
// own (jitter).
#ifndef WEFT_SIMULATOR_ENGINE_FOLD_H_
#define WEFT_SIMULATOR_ENGINE_FOLD_H_

#include <optional>

#include "simulator/network/network_model.h"
#include "simulator/program/program_view.h"
#include "simulator/program/rank_links.h"

namespace weft::sim {

// Returns the links of one rank of each class, the lowest, given the links of all ranks. Returns nothing if no two
// ranks are alike, or if one rank cannot stand for its class, for example because a channel joins two ranks of the
// class. Also returns nothing if the network lacks a figure; the simulation then reports the missing figure.
std::optional<RankLinks> FoldRanks(const ProgramView& view, const NetworkModel& network, const RankLinks& all);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FOLD_H_
