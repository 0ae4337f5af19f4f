// The data that flows through a pipeline, and how ranks that run their lists in order advance through them.
#ifndef WEFT_SCHEDULES_PIPELINE_DEPENDENCIES_H_
#define WEFT_SCHEDULES_PIPELINE_DEPENDENCIES_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// A result that one slot passes to others: the output of a forward, or the gradient of a stage's input, which kBackward
// and kBackwardInput make. Stage and microbatch name it, as a microbatch is in one lane only. Weight gradients are not
// passed on.
struct Result {
  bool gradient = false;
  int stage = -1;
  int microbatch = 0;
};

// The results that one microbatch of a slot reads (rule: F(s) reads F(s-1); B(s) and I(s) read F(s) and the gradient of
// s+1; W(s) reads the gradient that I(s) makes). stage = -1 if there is no such result.
inline std::array<Result, 2> SlotInputs(const Slot& slot, int microbatch, int stages) {
  switch (slot.kind) {
    case SlotKind::kForward:
      return {{{false, slot.stage - 1, microbatch}, {}}};
    case SlotKind::kBackward:
    case SlotKind::kBackwardInput:
      return {{{false, slot.stage, microbatch}, {true, slot.stage + 1 < stages ? slot.stage + 1 : -1, microbatch}}};
    case SlotKind::kBackwardWeight:
      return {{{true, slot.stage, microbatch}, {}}};
  }
  return {};
}

// True if a stage is done with a microbatch when the slot ends: its activations are released, and its place in the
// limit of a message-driven schedule is free.
inline bool EndsMicrobatch(const Slot& slot) {
  return slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardWeight;
}

// One byte for each (stage, microbatch): the slots that a schedule has, and which of them are done. The table is so
// small that millions of entries fit in a cache.
class SlotTable {
 public:
  enum Bit : uint8_t {
    kForward = 1,
    kBackward = 2,
    kBackwardInput = 4,
    kBackwardWeight = 8,
    // The slot that makes the result has `ahead` set.
    kForwardAhead = 16,
    kGradientAhead = 32,
    kForwardDone = 64,
    kGradientDone = 128,
  };
  static uint8_t KindBit(SlotKind kind) { return static_cast<uint8_t>(1 << static_cast<int>(kind)); }

  SlotTable(int stages, int microbatches)
      : microbatches_(microbatches), bits_(static_cast<int64_t>(stages) * microbatches) {}

  uint8_t& at(int stage, int microbatch) { return bits_[static_cast<int64_t>(stage) * microbatches_ + microbatch]; }
  uint8_t at(int stage, int microbatch) const {
    return bits_[static_cast<int64_t>(stage) * microbatches_ + microbatch];
  }
  bool ahead(const Result& r) const {
    return (at(r.stage, r.microbatch) & (r.gradient ? kGradientAhead : kForwardAhead)) != 0;
  }
  bool done(const Result& r) const {
    return (at(r.stage, r.microbatch) & (r.gradient ? kGradientDone : kForwardDone)) != 0;
  }
  void set_done(const Slot& slot) {
    if (slot.kind == SlotKind::kBackwardWeight) return;
    const uint8_t bit = slot.kind == SlotKind::kForward ? kForwardDone : kGradientDone;
    for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) at(slot.stage, m) |= bit;
  }
  void ClearDone() {
    for (uint8_t& bits : bits_) bits &= static_cast<uint8_t>(~(kForwardDone | kGradientDone));
  }

 private:
  int64_t microbatches_;
  std::vector<uint8_t> bits_;
};

// Makes the table of a schedule that is well formed and complete (check.h).
SlotTable MakeSlotTable(const PipelineSchedule& schedule, int microbatches);

// Lists that run side by side, each in order. A static schedule has one list per rank. A message-driven schedule has
// two lists per rank: list 2r has the forwards of rank r, list 2r + 1 its backwards. Only data dependencies and the
// limit order slots of these two lists relative to each other.
class SlotLists {
 public:
  // `schedule` and `table` must outlive the object. `order` has the form of PipelineSchedule::order.
  SlotLists(const PipelineSchedule& schedule, const std::vector<std::vector<Slot>>& order, SlotTable& table);
  SlotLists(const SlotLists&) = delete;
  SlotLists& operator=(const SlotLists&) = delete;

  int64_t size() const { return static_cast<int64_t>(lists_.size()); }
  absl::Span<const Slot> list(int64_t i) const { return lists_[i]; }
  int rank(int64_t list) const { return static_cast<int>(list / per_rank_); }
  int64_t ListOf(int rank, bool gradient) const { return int64_t{rank} * per_rank_ + (per_rank_ == 2 && gradient); }
  int64_t ListOf(const Result& result, int lane) const {
    return ListOf(schedule_.placement[lane][result.stage], result.gradient);
  }
  // Number of slots that run as one from index i on: 2 for an overlapped pair.
  static int Count(absl::Span<const Slot> list, size_t i) { return list[i].paired ? 2 : 1; }

  // Returns a result that `slot` waits for and that is not available yet; its stage is -1 if there is none. For a
  // forward that the limit holds back, the result is the gradient of the microbatch that must end first. The forward
  // waits until that microbatch's whole backward is done, also if it is in halves.
  Result Missing(const Slot& slot) const;
  // Returns the missing result of the slots that run as one from index i on, together with the slot that waits for it.
  std::pair<const Slot*, Result> Missing(absl::Span<const Slot> list, size_t i) const {
    std::pair<const Slot*, Result> missing = {&list[i], Missing(list[i])};
    if (missing.second.stage < 0 && list[i].paired) missing = {&list[i + 1], Missing(list[i + 1])};
    return missing;
  }

  // Runs every list as far as possible. Calls on_node(list, index, count) for the `count` slots that run as one from
  // `index` on, after the calls for all slots that they wait for. Returns how far each list got. The table's done bits
  // must be clear; afterwards they show which slots ran.
  template <typename OnNode>
  std::vector<int64_t> Run(const OnNode& on_node);

 private:
  template <typename Wake>
  void WakeUsers(const Slot& slot, const Wake& wake) const;
  void SetDone(const Slot& slot);

  const PipelineSchedule& schedule_;
  SlotTable& table_;
  int per_rank_ = 1;
  // The lists of a message-driven schedule, copied from `order`.
  std::vector<std::vector<Slot>> split_;
  std::vector<absl::Span<const Slot>> lists_;
  // For a message-driven schedule: its microbatches in the order that all stages use, and for each stage how many have
  // ended and how many are in flight.
  std::vector<int> microbatches_;
  std::vector<int> ended_, in_flight_;
};

template <typename Wake>
void SlotLists::WakeUsers(const Slot& slot, const Wake& wake) const {
  const std::vector<int>& rank_of = schedule_.placement[slot.lane];
  if (slot.kind == SlotKind::kForward && slot.stage + 1 < schedule_.stages) {
    wake(ListOf(rank_of[slot.stage + 1], false));
  }
  if ((slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardInput) && slot.stage > 0) {
    wake(ListOf(rank_of[slot.stage - 1], true));
  }
  // Wakes the rank's other list: a forward makes its backward ready, and a backward frees a forward that the limit held
  // back.
  if (per_rank_ == 2) wake(ListOf(rank_of[slot.stage], slot.kind == SlotKind::kForward));
}

template <typename OnNode>
std::vector<int64_t> SlotLists::Run(const OnNode& on_node) {
  std::vector<int64_t> at(size(), 0);
  std::vector<int64_t> awake(size());
  std::vector<bool> is_awake(size(), true);
  for (int64_t i = 0; i < size(); ++i) awake[i] = size() - 1 - i;
  while (!awake.empty()) {
    const int64_t list = awake.back();
    awake.pop_back();
    is_awake[list] = false;
    const absl::Span<const Slot> slots = lists_[list];
    while (at[list] < static_cast<int64_t>(slots.size())) {
      const int64_t i = at[list];
      if (Missing(slots, i).second.stage >= 0) break;
      const int count = Count(slots, i);
      on_node(list, i, count);
      for (int64_t j = i; j < i + count; ++j) {
        SetDone(slots[j]);
        WakeUsers(slots[j], [&](int64_t user) {
          if (user == list || is_awake[user]) return;
          is_awake[user] = true;
          awake.push_back(user);
        });
      }
      at[list] += count;
    }
  }
  return at;
}

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DEPENDENCIES_H_
