#include "schedules/pipeline/activations.h"

#include <algorithm>

namespace weft {
namespace {

class Holder {
 public:
  Holder(const PipelineSchedule& schedule, int microbatches)
      : microbatches_(microbatches), first_of_(microbatches, -1) {
    for (const std::vector<Slot>& order : schedule.order) {
      for (const Slot& slot : order) {
        if (slot.width == 1) continue;
        // A doubled forward is doubled in all stages.
        first_of_[slot.microbatch] = first_of_[slot.microbatch + 1] = slot.microbatch;
        half_gone_.resize(static_cast<int64_t>(schedule.stages) * microbatches);
      }
    }
  }

  void NextRank() { held_ = 0; }
  int64_t held() const { return held_; }

  void Run(const Slot& slot) {
    if (slot.kind == SlotKind::kForward) {
      held_ += slot.width;
      return;
    }
    if (slot.kind == SlotKind::kBackwardInput) return;
    const int first = first_of_[slot.microbatch];
    if (first < 0) {
      --held_;
      return;
    }
    const int64_t group = static_cast<int64_t>(slot.stage) * microbatches_ + first;
    if (half_gone_[group]) held_ -= 2;
    half_gone_[group] = !half_gone_[group];
  }

 private:
  int64_t microbatches_;
  // For each microbatch, the first microbatch of its doubled forward; -1 if its forward is not doubled.
  std::vector<int> first_of_;
  std::vector<bool> half_gone_;
  int64_t held_ = 0;
};

}  // namespace

void ForEachHeld(const PipelineSchedule& schedule, int microbatches,
                 absl::FunctionRef<void(int rank, const Slot& slot, int64_t held)> on_slot) {
  Holder holder(schedule, microbatches);
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    const std::vector<Slot>& order = schedule.order[rank];
    holder.NextRank();
    const auto run = [&](const Slot& slot) {
      holder.Run(slot);
      on_slot(static_cast<int>(rank), slot, holder.held());
    };
    if (schedule.asynchrony) {
      // First the slots that run ahead of the first repetition, then one whole repetition. The loop below adds the last
      // repetition, without slots ahead.
      for (const Slot& slot : order) {
        if (slot.ahead != 0) run(slot);
      }
      for (const Slot& slot : order) run(slot);
    }
    for (const Slot& slot : order) {
      if (slot.ahead == 0 || !schedule.asynchrony) run(slot);
    }
  }
}

std::vector<int64_t> PeakActivations(const PipelineSchedule& schedule, int microbatches) {
  std::vector<int64_t> peaks(schedule.order.size());
  ForEachHeld(schedule, microbatches,
              [&](int rank, const Slot&, int64_t held) { peaks[rank] = std::max(peaks[rank], held); });
  return peaks;
}

}  // namespace weft
