// Flows of transfers and collectives. If ranks are folded, RankLinks contains the flows; otherwise the table gets each
// flow from the network once.
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

  // TransferFlow returns the flow of a message on channel `index`. CollectiveFlow returns the flow of the call-th
  // collective of the first member's template on communicator `index`. Flows are valid as long as the table. Internal
  // if the network breaks its promise that the latency of collectives depends on the group alone.
  absl::StatusOr<const Flow*> TransferFlow(const NetworkModel& network, int32_t index, int64_t source,
                                           int64_t destination, int64_t bytes);
  absl::StatusOr<const Flow*> CollectiveFlow(const NetworkModel& network, int32_t index, int32_t call,
                                             const CollectiveCall& collective, const Communicator& communicator);

 private:
  // True if ranks are folded. The links are then classes of links, for which the network cannot give flows.
  const bool folded_;
  std::deque<Flow> flows_;
  // Flows of transfers, by channel: (size, flow) for the sizes seen so far. Flows of collectives, by communicator and
  // call; null = not requested yet.
  std::vector<std::vector<std::pair<int64_t, const Flow*>>> transfers_;
  std::vector<std::vector<const Flow*>> collectives_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FLOW_TABLE_H_
