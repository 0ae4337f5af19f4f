// Makes 10,000 random corruptions of valid schedules. Each is refused, or an independent run of the lists completes
// with every dependency met, at the times that TimeSchedule gives.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/naive_run.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

constexpr uint32_t kSeed = 20261120;
constexpr int kCorruptions = 10000;

class Corruptor {
 public:
  int Next(int64_t below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }

  // A valid schedule of any kind, and its number of microbatches.
  std::pair<PipelineSchedule, int> Valid() {
    for (;;) {
      const ScheduleEntry& entry = Schedules()[Next(Schedules().size())];
      ScheduleParams params = {.ranks = 1 + Next(4), .microbatches = 1 + Next(8)};
      if ((entry.takes & kTakesLimit) != 0) params.limit = Next(4);
      if ((entry.takes & kTakesVirtualStages) != 0) params.virtual_stages = Next(2) * (2 + Next(2));
      if ((entry.takes & kTakesLanes) != 0) params.lanes = 2 * Next(3);
      if ((entry.takes & kTakesScaling) != 0) params.scaling = static_cast<Scaling>(Next(3));
      absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, params);
      if (!schedule.ok()) continue;
      if (schedule->message_driven) Vary(*schedule, params.microbatches);
      return {*std::move(schedule), params.microbatches};
    }
  }

  // Permutes the microbatches. Sometimes splits backwards into halves, with the second half a few slots after the
  // first.
  void Vary(PipelineSchedule& schedule, int microbatches) {
    std::vector<int> names(microbatches);
    for (int m = 0; m < microbatches; ++m) names[m] = m;
    for (int m = 0; m < microbatches; ++m) std::swap(names[m], names[m + Next(microbatches - m)]);
    for (std::vector<Slot>& order : schedule.order) {
      for (Slot& slot : order) slot.microbatch = names[slot.microbatch];
      if (Next(2) == 0) continue;
      const int late = Next(3);
      std::vector<Slot> halves, waiting;
      for (Slot slot : order) {
        if (slot.kind != SlotKind::kBackward) {
          halves.push_back(slot);
          continue;
        }
        slot.kind = SlotKind::kBackwardInput;
        halves.push_back(slot);
        slot.kind = SlotKind::kBackwardWeight;
        waiting.push_back(slot);
        if (static_cast<int>(waiting.size()) <= late) continue;
        halves.push_back(waiting.front());
        waiting.erase(waiting.begin());
      }
      halves.insert(halves.end(), waiting.begin(), waiting.end());
      order = halves;
    }
  }

  void Corrupt(PipelineSchedule& schedule, int microbatches) {
    const int ranks = static_cast<int>(schedule.order.size());
    std::vector<Slot>& order = schedule.order[Next(ranks)];
    if (order.empty()) return;
    const int i = Next(order.size());
    Slot& slot = order[i];
    switch (Next(12)) {
      case 0:
        order.erase(order.begin() + i);
        return;
      case 1: {
        const Slot copy = slot;
        order.insert(order.begin() + Next(order.size() + 1), copy);
        return;
      }
      case 2:
        std::swap(slot, order[Next(order.size())]);
        return;
      case 3:
      case 4:
      case 5:
        if (i + 1 < static_cast<int>(order.size())) std::swap(slot, order[i + 1]);
        return;
      case 6:
        slot.lane = static_cast<int16_t>(Next(schedule.lanes + 1));
        return;
      case 7:
        slot.stage = Next(schedule.stages + 1);
        return;
      case 8:
        slot.microbatch = Next(microbatches + 1);
        return;
      case 9:
        slot.kind = static_cast<SlotKind>(Next(4));
        return;
      case 10: {
        // Moves the slot to another rank.
        const Slot copy = slot;
        order.erase(order.begin() + i);
        std::vector<Slot>& other = schedule.order[Next(ranks)];
        other.insert(other.begin() + Next(other.size() + 1), copy);
        return;
      }
      case 11:
        if (schedule.message_driven) return;
        if (Next(2) == 0) slot.paired = !slot.paired;
        if (Next(4) == 0) slot.width = static_cast<uint8_t>(Next(4));
        // Splits a whole backward: it becomes the input gradient, and the weight gradient is inserted after it.
        if (slot.kind == SlotKind::kBackward && Next(2) == 0) {
          slot.kind = SlotKind::kBackwardInput;
          Slot weight = slot;
          weight.kind = SlotKind::kBackwardWeight;
          order.insert(order.begin() + i + 1 + Next(order.size() - i), weight);
        }
        return;
    }
  }

 private:
  std::mt19937 random_{kSeed};
};

std::string Text(const PipelineSchedule& schedule) {
  std::string text;
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    absl::StrAppend(&text, "\nrank ", rank, ":");
    for (const Slot& slot : schedule.order[rank]) {
      absl::StrAppend(&text, " [", SlotName(schedule, slot), slot.paired ? " &]" : "]");
    }
  }
  return text;
}

TEST(CheckSchedule, CorruptionsAreRefusedOrStillRun) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Corruptor corruptor;
  int accepted = 0, refused = 0, timed = 0;
  for (int round = 0; round < kCorruptions; ++round) {
    auto [schedule, microbatches] = corruptor.Valid();
    for (int times = 1 + corruptor.Next(4) / 3; times > 0; --times) corruptor.Corrupt(schedule, microbatches);
    const SlotCosts costs = {.forward = 1 + corruptor.Next(5),
                             .backward = 3 + corruptor.Next(5),
                             .weight = corruptor.Next(3),
                             .pair = corruptor.Next(2) * 5,
                             .p2p = corruptor.Next(3)};
    const absl::Status status = CheckSchedule(schedule, microbatches);
    const NaiveRun naive(schedule, microbatches, costs);
    if (!status.ok()) {
      ++refused;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      // Asynchronous lists must obey more rules (a slot that is ahead must not wait for a slot that is not ahead). In a
      // message-driven list the run may accept a backward that breaks the common order of microbatches.
      const bool one_order = absl::StrContains(status.message(), "in the same order");
      if (!schedule.asynchrony && !one_order) {
        ASSERT_NE(naive.problem(), "") << status << Text(schedule);
      }
      continue;
    }
    ++accepted;
    ASSERT_EQ(naive.problem(), "") << Text(schedule);
    const absl::StatusOr<ScheduleTiming> timing = TimeSchedule(schedule, microbatches, costs);
    ASSERT_TRUE(timing.ok()) << timing.status();
    if (schedule.message_driven || schedule.asynchrony) continue;
    ++timed;
    const int64_t scale = int64_t{schedule.stages} * static_cast<int64_t>(schedule.order.size());
    for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
      for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
        ASSERT_EQ(naive.start()[rank][i] * timing->unit, timing->start[rank][i] * scale)
            << "rank " << rank << ", slot " << i << Text(schedule);
      }
    }
  }
  EXPECT_GT(accepted, kCorruptions / 20);
  EXPECT_GT(refused, kCorruptions / 2);
  EXPECT_GT(timed, kCorruptions / 40);
}

}  // namespace
}  // namespace weft
