#include "schedules/pipeline/dependencies.h"

namespace weft {

SlotTable MakeSlotTable(const PipelineSchedule& schedule, int microbatches) {
  SlotTable table(schedule.stages, microbatches);
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) {
      uint8_t bits = SlotTable::KindBit(slot.kind);
      if (slot.ahead != 0) {
        if (slot.kind == SlotKind::kForward) bits |= SlotTable::kForwardAhead;
        if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardInput)
          bits |= SlotTable::kGradientAhead;
      }
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) table.at(slot.stage, m) |= bits;
    }
  }
  return table;
}

SlotLists::SlotLists(const PipelineSchedule& schedule, const std::vector<std::vector<Slot>>& order, SlotTable& table)
    : schedule_(schedule), table_(table) {
  if (!schedule.message_driven) {
    lists_.assign(order.begin(), order.end());
    return;
  }
  per_rank_ = 2;
  split_.resize(2 * order.size());
  for (size_t rank = 0; rank < order.size(); ++rank) {
    for (const Slot& slot : order[rank]) {
      split_[2 * rank + (slot.kind != SlotKind::kForward)].push_back(slot);
      if (slot.kind == SlotKind::kForward && slot.stage == 0) microbatches_.push_back(slot.microbatch);
    }
  }
  ended_.resize(schedule.stages);
  in_flight_.resize(schedule.stages);
  lists_.assign(split_.begin(), split_.end());
}

Result SlotLists::Missing(const Slot& slot) const {
  for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
    for (const Result& input : SlotInputs(slot, m, schedule_.stages)) {
      if (input.stage < 0 || table_.done(input)) continue;
      // The input comes from the previous repetition.
      if (slot.ahead == 0 && table_.ahead(input)) continue;
      return input;
    }
  }
  if (schedule_.message_driven && slot.kind == SlotKind::kForward &&
      in_flight_[slot.stage] >= schedule_.message_driven->limit) {
    return {true, slot.stage, microbatches_[ended_[slot.stage]]};
  }
  return {};
}

void SlotLists::SetDone(const Slot& slot) {
  table_.set_done(slot);
  if (!schedule_.message_driven) return;
  if (slot.kind == SlotKind::kForward) ++in_flight_[slot.stage];
  if (!EndsMicrobatch(slot)) return;
  --in_flight_[slot.stage];
  ++ended_[slot.stage];
}

}  // namespace weft
