// Where streams of different ranks meet: channels between two ranks (rule P4) and communicators of a group.
#ifndef WEFT_SIMULATOR_ENGINE_LINKS_H_
#define WEFT_SIMULATOR_ENGINE_LINKS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/network/network_model.h"
#include "simulator/program/program_view.h"
#include "simulator/program/rank_links.h"

namespace weft::sim {

// A SEND or RECV that is ready or in flight.
struct ChannelEnd {
  bool ready = false;
  int32_t stream = -1;
  // Index in TemplateView::actions.
  int32_t action = -1;
  // Index of the transfer's group in the engine; -1 = it starts by itself.
  int32_t group = -1;
};

// The transfers from one rank to another with one (lane, direction, skip). If a group holds several such transfers,
// each has a channel of its own. The i-th send belongs to the i-th recv, and each side runs its transfers on one stream
// in order. So if both sides are ready, their transfers belong together.
struct Channel {
  // Numbers of the ranks.
  int64_t source = -1;
  int64_t destination = -1;
  ChannelEnd send;
  ChannelEnd recv;
  // Time of the transfer in flight.
  TransferTime time;
  // Times of the message sizes seen so far.
  std::vector<std::pair<int64_t, TransferTime>> known;
};

// One member's part of a collective: indices of its entry and run.
struct EndedRun {
  int32_t entry = 0;
  int32_t run = 0;
};

// The streams of one (group, purpose).
struct Communicator {
  GroupForm form;
  std::vector<int64_t> members;
  // Streams of the members that are simulated, the lowest first, and how many streams must be ready.
  std::vector<int32_t> streams;
  size_t needed = 0;
  size_t ready = 0;
  TransferTime time;
  // Known times, by index in TemplateView::collectives of the first member; negative = not asked yet.
  std::vector<TransferTime> known;
  // Runs that have ended and are not finished, in the order in which they ended. Each collective has one run for each
  // member. All collectives of the communicator have the same latency, so the runs finish in this order.
  std::vector<EndedRun> ended;
};

struct Links {
  std::vector<Channel> channels;
  std::vector<Communicator> communicators;
};

// Makes the channels and communicators of the simulated ranks of `links`, with nothing in flight.
Links MakeLinks(const RankLinks& links);

// Sets `channel->time` for a message of `bytes`. Asks the network only for the first message of each size.
absl::Status SetTransferTime(const NetworkModel& network, int64_t bytes, Channel* channel);

// Sets `communicator->time` for the index-th collective of the first member's template. Internal if the network breaks
// its promise that latency depends on the group alone.
absl::Status SetCollectiveTime(const NetworkModel& network, const CollectiveCall& call, int32_t index,
                               Communicator* communicator);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_LINKS_H_
