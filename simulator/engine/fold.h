// Folding (rule P12): ranks that behave alike are simulated once.
//
// Ranks are parted into classes: at first by template and by kind and speed of their devices; then again and again by
// the times of their channels and communicators and by the classes of whom they meet there, until nothing changes
// (colour refinement). In what is left, two ranks of a class run the same entries, their i-th channels take the same
// times and lead to the same channel of ranks of one class, and their i-th communicators take the same times and have
// members of the same classes on the same streams. So by induction over time whatever happens to a rank happens at that
// instant to all of its class: to know when a communicator is complete it is enough to know of one member of each
// class. What a rank waits for besides is its own (streams, actions, choice of compute by P6, load) or of all (step
// barrier).
//
// Where transfers and collectives are flows over links that all share (rule P12), channels, communicators and links are
// parted along with ranks (link_classes.h): then whatever has one class has one rate, and one flow stands for all of
// its class, with all that they take of each link.
//
// Not folded: where ranks share more than that (compute slots of a node), or where each step is drawn for itself
// (jitter).
#ifndef WEFT_SIMULATOR_ENGINE_FOLD_H_
#define WEFT_SIMULATOR_ENGINE_FOLD_H_

#include <optional>

#include "simulator/network/network_model.h"
#include "simulator/program/program_view.h"
#include "simulator/program/rank_links.h"

namespace weft::sim {

// The links of one rank, the lowest, of each class, from those of all ranks. Nothing, if no two ranks are alike, or if
// the network lacks a figure, which then is for the simulation to say.
std::optional<RankLinks> FoldRanks(const ProgramView& view, const NetworkModel& network, const RankLinks& all);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FOLD_H_
