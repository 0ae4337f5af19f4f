// Transfers and collectives on a network with shared links (rule P12). They start as on any other network, but their
// end is known only when it happens.
#include "simulator/engine/engine_impl.h"

namespace weft::sim {

void Engine::BeginFlow(const Flow& flow, bool collective, int32_t index, absl::Span<const int32_t> streams) {
  const int32_t number = flow_clock_.Begin(now_, flow);
  if (static_cast<int32_t>(flow_owners_.size()) <= number) flow_owners_.resize(number + 1);
  FlowOwner& owner = flow_owners_[number];
  owner.collective = collective;
  owner.index = index;
  owner.events.clear();
  if (!options_.trace) return;
  for (const int32_t s : streams) {
    const int32_t rank = streams_[s].rank;
    owner.events.push_back({rank, result_.ranks[rank].events.size() - 1});
  }
}

void Engine::AdvanceFlow() {
  const int32_t number = flow_clock_.Advance(now_);
  if (number < 0) return;
  // EndCollective and EndTransfer may begin another flow with the same number. So copy the owner first.
  const bool collective = flow_owners_[number].collective;
  const int32_t index = flow_owners_[number].index;
  for (const auto& [rank, event] : flow_owners_[number].events) {
    EngineEvent& traced = result_.ranks[rank].events[event];
    // When the flow began, the trace got `end` and `finish` as if the flow took no time.
    traced.finish = Time{now_} + (traced.finish - traced.end);
    traced.end = {now_};
  }
  if (collective) {
    EndCollective(index);
  } else {
    EndTransfer(index);
  }
}

}  // namespace weft::sim
