#include "simulator/engine/flow_table.h"

#include "proto/util/status.h"

namespace weft::sim {
namespace {

absl::Status LeftOut() { return absl::InternalError("ranks were folded, but not all of their flows"); }

}  // namespace

FlowTable::FlowTable(const RankLinks& links) : folded_(!links.flows.capacities.empty()) {
  for (const auto& flows : links.flows.of_channel) {
    auto& known = transfers_.emplace_back();
    for (const auto& [bytes, flow] : flows) known.push_back({bytes, &flow});
  }
  for (const auto& flows : links.flows.of_communicator) {
    std::vector<const Flow*>& known = collectives_.emplace_back();
    for (const auto& [call, flow] : flows) {
      if (static_cast<int64_t>(known.size()) <= call) known.resize(call + 1, nullptr);
      known[call] = &flow;
    }
  }
}

absl::StatusOr<const Flow*> FlowTable::TransferFlow(const NetworkModel& network, int32_t index, int64_t source,
                                                    int64_t destination, int64_t bytes) {
  if (static_cast<int32_t>(transfers_.size()) <= index) transfers_.resize(index + 1);
  for (const auto& [known_bytes, flow] : transfers_[index]) {
    if (known_bytes == bytes) return flow;
  }
  if (folded_) return LeftOut();
  WEFT_ASSIGN_OR_RETURN(Flow flow, network.TransferFlow(source, destination, bytes));
  flows_.push_back(std::move(flow));
  transfers_[index].push_back({bytes, &flows_.back()});
  return &flows_.back();
}

absl::StatusOr<const Flow*> FlowTable::CollectiveFlow(const NetworkModel& network, int32_t index, int32_t call,
                                                      const CollectiveCall& collective,
                                                      const Communicator& communicator) {
  if (static_cast<int32_t>(collectives_.size()) <= index) collectives_.resize(index + 1);
  std::vector<const Flow*>& known = collectives_[index];
  if (static_cast<int32_t>(known.size()) <= call) known.resize(call + 1, nullptr);
  if (known[call] != nullptr) return known[call];
  if (folded_) return LeftOut();
  WEFT_ASSIGN_OR_RETURN(Flow flow, network.CollectiveFlow(collective, communicator.form, communicator.members));
  for (const Flow* other : known) {
    if (other == nullptr || other->latency == flow.latency) continue;
    return absl::InternalError("the network model gives collectives of one group different latencies");
  }
  flows_.push_back(std::move(flow));
  known[call] = &flows_.back();
  return known[call];
}

}  // namespace weft::sim
