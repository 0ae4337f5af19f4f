// For tests: expects two runs of the engine to have the same times and figures.
#ifndef WEFT_SIMULATOR_ENGINE_SAME_RESULT_TESTING_H_
#define WEFT_SIMULATOR_ENGINE_SAME_RESULT_TESTING_H_

#include <algorithm>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/engine/engine.h"

namespace weft::sim {

// All fields of a result, with events in a fixed order.
inline auto Everything(const RankResult& rank) {
  using EventTuple = std::tuple<int, int, int, int, Time, Time, Time, Time>;
  std::vector<EventTuple> events;
  for (const EngineEvent& e : rank.events) {
    events.push_back({e.repetition, e.action, e.step, e.stream, e.ready, e.start, e.end, e.finish});
  }
  std::sort(events.begin(), events.end());
  return std::make_tuple(rank.busy, rank.slowed, rank.exposed_communication, rank.idle, rank.live_peak,
                         rank.peak_forwards, rank.live_at_peak, events);
}

inline void ExpectSame(const EngineResult& a, const EngineResult& b) {
  EXPECT_EQ(a.makespan, b.makespan);
  EXPECT_EQ(a.repetition_finish, b.repetition_finish);
  EXPECT_EQ(a.steps, b.steps);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    EXPECT_TRUE(Everything(a.ranks[rank]) == Everything(b.ranks[rank])) << "rank " << rank;
  }
}

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_SAME_RESULT_TESTING_H_
