// Where the streams of ranks meet (rule P4): the two ends of each channel, and the members of each communicator.
#ifndef WEFT_SIMULATOR_PROGRAM_RANK_LINKS_H_
#define WEFT_SIMULATOR_PROGRAM_RANK_LINKS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/network/group_form.h"
#include "simulator/network/network_model.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// A rank that is simulated.
struct LinkedRank {
  int32_t rank = 0;
  // Number of ranks that behave like this rank and are not simulated themselves, plus one for this rank.
  int64_t stands_for = 1;
  // Index of this rank's first elements in RankLinks::sides and RankLinks::streams.
  int32_t first_side = 0;
  int32_t first_stream = 0;
};

// A channel of one (source, destination, lane, direction, skip). If several transfers of one group share these, each
// has a channel. The ends are indices in RankLinks::sides, -1 = nothing is at this end.
struct ChannelLink {
  int32_t send = -1;
  int32_t recv = -1;
};

// One end of a channel.
struct ChannelSide {
  // Indices in RankLinks::ranks and TemplateView::channels.
  int32_t owner = 0;
  int32_t index = 0;
  // Index in RankLinks::channels.
  int32_t channel = -1;
};

struct CommunicatorStream {
  // Indices in RankLinks::ranks and TemplateView::streams.
  int32_t owner = 0;
  int32_t stream = 0;
};

// The communicator of one (group, purpose).
struct CommunicatorLink {
  // The form of the group, as the lowest member has it.
  GroupForm form;
  // Ranks of the members, ascending.
  std::vector<int64_t> members;
  // Streams of the members that are simulated, the lowest member first.
  std::vector<CommunicatorStream> streams;
  // Number of streams that must be ready for a collective to start.
  int64_t needed = 0;
};

// Used if some ranks are folded, i.e. not simulated themselves, on a network with shared links (rule P12). Replaces the
// network's links and flows by those of link classes (link_classes.h).
struct LinkedFlows {
  // Capacity of each class of links; empty = use the network's own links.
  std::vector<int64_t> capacities;
  // For each channel of RankLinks, (bytes of a message, flow) for each size of message.
  std::vector<std::vector<std::pair<int64_t, Flow>>> of_channel;
  // For each communicator, the flow of each call of its first stream.
  std::vector<std::vector<std::pair<int64_t, Flow>>> of_communicator;
};

struct RankLinks {
  std::vector<LinkedRank> ranks;
  // For each rank, the index in `ranks` of the rank that is simulated for it. Empty = each rank is simulated itself.
  std::vector<int32_t> simulated_as;
  std::vector<ChannelSide> sides;
  std::vector<ChannelLink> channels;
  // For every stream of every simulated rank, in the order of its view, the index in `communicators`, -1 = none.
  std::vector<int32_t> streams;
  std::vector<CommunicatorLink> communicators;
  LinkedFlows flows;
};

// Links all ranks. ResourceExhausted if the links would take more than 4 GiB.
absl::StatusOr<RankLinks> LinkRanks(const ProgramView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_RANK_LINKS_H_
