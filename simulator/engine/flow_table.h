// Flows of transfers and collectives: of folded ranks those that stand for others, else asked of the network once each.
#ifndef WEFT_SIMULATOR_ENGINE_FLOW_TABLE_H_
#define WEFT_SIMULATOR_ENGINE_FLOW_TABLE_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/links.h"
#include "simulator/network/network_model.h"
#include "simulator/program/rank_links.h"

namespace weft::sim {

class FlowTable {
 public:
  // `links` must outlive the table.
  explicit FlowTable(const RankLinks& links);

  // Of a message on channel `index`, and of the call-th collective of the first member's template on communicator
  // `index`. Valid as long as the table. Internal if the network breaks its promise that the latency of collectives
  // depends on the group alone.
  absl::StatusOr<const Flow*> OfTransfer(const NetworkModel& network, int32_t index, int64_t source,
                                         int64_t destination, int64_t bytes);
  absl::StatusOr<const Flow*> OfCollective(const NetworkModel& network, int32_t index, int32_t call,
                                           const CollectiveCall& collective, const Communicator& communicator);

 private:
  // Links are classes of links, which the network knows nothing of.
  const bool folded_;
  std::deque<Flow> flows_;
  // By channel, the sizes of messages seen so far; by communicator and call, null = not asked yet.
  std::vector<std::vector<std::pair<int64_t, const Flow*>>> transfers_;
  std::vector<std::vector<const Flow*>> collectives_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FLOW_TABLE_H_
