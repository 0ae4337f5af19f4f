// Where streams of different ranks meet: channels of two (rule P4) and communicators of a group.
#ifndef WEFT_SIMULATOR_LINKS_H_
#define WEFT_SIMULATOR_LINKS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/network/network_model.h"
#include "simulator/program_view.h"

namespace weft {

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
  // Streams of the members, by rank.
  std::vector<int32_t> streams;
  size_t ready = 0;
  TransferTime time;
  // Times by index in TemplateView::collectives of the first member; negative = not asked yet.
  std::vector<TransferTime> known;
  // What has ended and is not finished, in order: of each collective the runs of its members. All have one latency, so
  // they finish in this order.
  std::vector<RunningRun> ended;
};

class Links {
 public:
  explicit Links(const Mesh& mesh) : mesh_(mesh) {}

  // The index of the channel that `view` is a side of for `rank`, or of the communicator that `stream` becomes a member
  // of. Ranks ascend.
  int32_t AddTransfer(int64_t rank, const ChannelView& view);
  int32_t AddCollective(int64_t rank, const StreamKey& key, int32_t stream);

  std::vector<Channel> channels;
  std::vector<Communicator> communicators;

 private:
  // The rank with the coordinates given, those of `rank` where they are negative.
  int64_t Resolve(int64_t rank, const std::vector<int64_t>& coordinates) const;

  const Mesh& mesh_;
  // By source, destination, lane, direction, skip, slot.
  std::map<std::tuple<int64_t, int64_t, int32_t, Direction, int32_t, int32_t>, int32_t> channel_of_;
  // By purpose, a member, and the group as that member's template has it; and by purpose and members.
  std::map<std::tuple<Purpose, int64_t, GroupForm>, int32_t> communicator_of_;
  std::map<std::pair<Purpose, std::vector<int64_t>>, int32_t> communicator_of_members_;
};

// Sets `channel->time` for a message, asking the network the first time.
absl::Status SetTransferTime(const NetworkModel& network, int64_t source, int64_t destination, int64_t bytes,
                             Channel* channel);

// Sets `communicator->time` for the index-th collective of the first member's template. Internal if the network breaks
// its promise that latency depends on the group alone.
absl::Status SetCollectiveTime(const NetworkModel& network, const CollectiveCall& call, int32_t index,
                               Communicator* communicator);

}  // namespace weft

#endif  // WEFT_SIMULATOR_LINKS_H_
