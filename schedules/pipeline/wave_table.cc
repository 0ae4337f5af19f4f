#include "schedules/pipeline/wave_table.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

// One lane's microbatches in one unit.
struct LaneUnit {
  int64_t begin;  // first slot of the unit
  int first;      // first microbatch
  int count;
  bool twos;      // two microbatches per forward slot
  int undoubled;  // number of pairs of microbatches that run as two forwards
};

// Returns the units as units[i * lanes + lane].
std::vector<LaneUnit> DivideIntoUnits(const WaveTable& table, int microbatches) {
  const int lanes = static_cast<int>(table.placement.size());
  const int64_t stages = static_cast<int64_t>(table.placement[0].size());
  const int64_t single = int64_t{lanes} * table.per_lane;
  std::vector<LaneUnit> units;
  int64_t begin = 0;
  for (int64_t first = 0; first < microbatches;) {
    const int64_t left = microbatches - first;
    const bool twos = table.unit != WaveUnit::kSingle && left > single;
    const int64_t count = std::min(left, twos ? 2 * single : single);
    for (int lane = 0; lane < lanes; ++lane) {
      const int share = static_cast<int>(count / lanes + (lane < count % lanes ? 1 : 0));
      const int undoubled = table.unit == WaveUnit::kPairs ? share : begin == 0 ? table.undoubled : 0;
      units.push_back({begin, static_cast<int>(first), share, twos, undoubled});
      first += share;
    }
    begin += (twos ? 3 : 2) * stages;
  }
  return units;
}

}  // namespace

std::vector<std::vector<Slot>> WaveOrder(const WaveTable& table, int microbatches) {
  const int lanes = static_cast<int>(table.placement.size());
  const int stages = static_cast<int>(table.placement[0].size());
  const std::vector<LaneUnit> units = DivideIntoUnits(table, microbatches);
  std::vector<std::vector<std::pair<int, int>>> held(table.ranks);  // (lane, stage) on each rank
  for (int lane = 0; lane < lanes; ++lane) {
    for (int stage = 0; stage < stages; ++stage) held[table.placement[lane][stage]].emplace_back(lane, stage);
  }

  std::vector<std::vector<Slot>> order(table.ranks);
  // Slots with their sort key: twice the slot's number in the table, so that two forwards fit into one slot.
  std::vector<std::pair<int64_t, Slot>> timed;
  for (int rank = 0; rank < table.ranks; ++rank) {
    timed.clear();
    for (size_t i = 0; i < units.size(); i += lanes) {
      for (const auto& [lane, stage] : held[rank]) {
        const LaneUnit& unit = units[i + lane];
        auto add = [&, lane = lane, stage = stage](int64_t slot, int half, SlotKind kind, int m, int width) {
          timed.emplace_back(2 * (unit.begin + slot) + half, Slot{.kind = kind,
                                                                  .lane = static_cast<int16_t>(lane),
                                                                  .stage = stage,
                                                                  .microbatch = unit.first + m,
                                                                  .width = static_cast<uint8_t>(width)});
        };
        for (int m = 0; m < unit.count;) {
          const int64_t pair = unit.twos ? m / 2 : m;
          const int64_t slot = 2 * pair + stage;
          const int width = unit.twos && m + 1 < unit.count ? 2 : 1;
          if (width == 2 && pair < unit.undoubled) {
            add(slot, 0, SlotKind::kForward, m, 1);
            add(slot, 1, SlotKind::kForward, m + 1, 1);
          } else {
            add(slot, 0, SlotKind::kForward, m, width);
          }
          m += width;
        }
        for (int m = 0; m < unit.count; ++m) {
          const int64_t round = m / table.per_lane, j = m % table.per_lane;
          add(2 * j + (round + 1) * stages + (stages - 1 - stage), 0, SlotKind::kBackward, m, 1);
        }
      }
    }
    std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    // No rank has two entries in one slot: "at most one micro-batch occupies the same time slot on each worker"
    // (Chimera, sec. 3.1).
    assert(std::adjacent_find(timed.begin(), timed.end(),
                              [](const auto& a, const auto& b) { return a.first == b.first; }) == timed.end());
    order[rank].reserve(timed.size());
    for (const auto& [time, slot] : timed) order[rank].push_back(slot);
  }
  return order;
}

}  // namespace weft
