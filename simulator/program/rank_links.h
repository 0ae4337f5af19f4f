// Where the streams of ranks meet (rule P4): who is at the other end of each channel, and in each communicator.
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
  // Ranks that it is simulated for, itself among them.
  int64_t stands_for = 1;
  // Its first in RankLinks::sides and RankLinks::streams.
  int32_t first_side = 0;
  int32_t first_stream = 0;
};

// One (source, destination, lane, direction, skip), one for each of several transfers in a group. In RankLinks::sides,
// -1 = nobody is at this end.
struct ChannelLink {
  int32_t send = -1;
  int32_t recv = -1;
};

// A channel of a rank's view.
struct ChannelSide {
  // In RankLinks::ranks and TemplateView::channels.
  int32_t owner = 0;
  int32_t index = 0;
  // In RankLinks::channels.
  int32_t channel = -1;
};

struct CommunicatorStream {
  // In RankLinks::ranks and TemplateView::streams.
  int32_t owner = 0;
  int32_t stream = 0;
};

// One (group, purpose).
struct CommunicatorLink {
  // As its lowest member has it.
  GroupForm form;
  // Ranks, ascending.
  std::vector<int64_t> members;
  // Of the members that are simulated, that of the lowest first.
  std::vector<CommunicatorStream> streams;
  // Streams that must be ready for a collective to start.
  int64_t needed = 0;
};

// Of folded ranks on a network whose links are shared (rule P12): what stands for its links and flows (link_classes.h).
struct LinkedFlows {
  // Of each class of links; empty: links are the network's own.
  std::vector<int64_t> capacities;
  // By channel of RankLinks: those of each size of message.
  std::vector<std::vector<std::pair<int64_t, Flow>>> of_channel;
  // By communicator: those of the calls of its first stream.
  std::vector<std::vector<std::pair<int64_t, Flow>>> of_communicator;
};

struct RankLinks {
  std::vector<LinkedRank> ranks;
  // By rank: which of `ranks` is simulated for it. Empty: each for itself.
  std::vector<int32_t> simulated_as;
  std::vector<ChannelSide> sides;
  std::vector<ChannelLink> channels;
  // By stream of every simulated rank, as its view has them: in `communicators`, -1 = none.
  std::vector<int32_t> streams;
  std::vector<CommunicatorLink> communicators;
  LinkedFlows flows;
};

// Of all ranks. ResourceExhausted if they would take more than 4 GiB.
absl::StatusOr<RankLinks> LinkRanks(const ProgramView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_RANK_LINKS_H_
