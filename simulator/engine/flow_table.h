// Flows of transfers and collectives. If ranks are folded, the flows come with RankLinks; otherwise the table asks the
// network once for each.
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
  // True if links are classes of links, which the network does not know.
  const bool folded_;
  std::deque<Flow> flows_;
  // Transfers: by channel, the flows of the sizes seen so far. Collectives: by communicator and call, null = not asked
  // yet.
  std::vector<std::vector<std::pair<int64_t, const Flow*>>> transfers_;
  std::vector<std::vector<const Flow*>> collectives_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FLOW_TABLE_H_
