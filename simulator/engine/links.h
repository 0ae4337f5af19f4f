// Where streams of different ranks meet: channels of two (rule P4) and communicators of a group.
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

// A SEND or RECV that is ready or under way.
struct ChannelEnd {
  bool ready = false;
  int32_t stream = -1;
  // In TemplateView::actions.
  int32_t action = -1;
  // Of the engine's groups, -1 = it starts by itself.
  int32_t group = -1;
};

// One (source, destination, lane, direction, skip), one for each of several transfers in a group. The i-th send belongs
// to the i-th recv, and each side has all of them on one stream in order, so what is ready on both sides always belongs
// together.
struct Channel {
  // Ranks.
  int64_t source = -1;
  int64_t destination = -1;
  ChannelEnd send;
  ChannelEnd recv;
  // Of the transfer under way.
  TransferTime time;
  // Times of the message sizes seen so far.
  std::vector<std::pair<int64_t, TransferTime>> known;
};

// A collective of a rank.
struct RunningRun {
  int32_t entry = 0;
  int32_t run = 0;
};

// The streams of one (group, purpose).
struct Communicator {
  GroupForm form;
  std::vector<int64_t> members;
  // Streams of those that are simulated, the lowest first, and how many must be ready.
  std::vector<int32_t> streams;
  size_t needed = 0;
  size_t ready = 0;
  TransferTime time;
  // Times by index in TemplateView::collectives of the first member; negative = not asked yet.
  std::vector<TransferTime> known;
  // What has ended and is not finished, in order: of each collective the runs of its members. All have one latency, so
  // they finish in this order.
  std::vector<RunningRun> ended;
};

struct Links {
  std::vector<Channel> channels;
  std::vector<Communicator> communicators;
};

// What is shared by the simulated ranks of `links`, nothing under way.
Links MakeLinks(const RankLinks& links);

// Sets `channel->time` for a message, asking the network the first time.
absl::Status SetTransferTime(const NetworkModel& network, int64_t bytes, Channel* channel);

// Sets `communicator->time` for the index-th collective of the first member's template. Internal if the network breaks
// its promise that latency depends on the group alone.
absl::Status SetCollectiveTime(const NetworkModel& network, const CollectiveCall& call, int32_t index,
                               Communicator* communicator);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_LINKS_H_
