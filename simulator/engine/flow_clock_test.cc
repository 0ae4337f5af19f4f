#include "simulator/engine/flow_clock.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

constexpr int64_t kMillisecond = 1'000'000'000;

Flow OneMessage(int64_t bytes, std::vector<std::pair<int32_t, int32_t>> loads) {
  return {.phases = {{.bytes = bytes, .loads = std::move(loads)}}};
}

// Returns the ends, in picoseconds, of flows that begin at the given times.
std::vector<int64_t> Ends(const std::vector<int64_t>& capacities, const std::vector<std::pair<int64_t, Flow>>& flows) {
  FlowClock clock(capacities);
  std::vector<int64_t> ends(flows.size(), -1);
  std::map<int32_t, size_t> numbers;
  int64_t now = 0;
  while (true) {
    for (size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].first == now) numbers[clock.Begin(now, flows[i].second)] = i;
    }
    while (clock.next() == now) {
      const int32_t number = clock.Advance(now);
      if (number >= 0) ends[numbers[number]] = now;
    }
    if (clock.changed()) clock.Solve(now);
    int64_t next = clock.next();
    for (const auto& [begin, flow] : flows) {
      if (begin > now) next = std::min(next, begin);
    }
    if (next == FlowClock::kNever) return ends;
    now = next;
  }
}

TEST(FlowClock, IncastSharesTheLinkThatAllEnter) {
  // Four messages of 100 MB share a link of 50 GB/s.
  std::vector<std::pair<int64_t, Flow>> flows;
  for (int32_t i = 0; i < 4; ++i) flows.push_back({0, OneMessage(100'000'000, {{i, 1}, {4, 1}})});
  for (const int64_t end : Ends(std::vector<int64_t>(5, 50'000'000'000), flows)) EXPECT_EQ(end, 8 * kMillisecond);
}

TEST(FlowClock, RemainingBytesMoveAtTheNewRate) {
  // 100 and 300 bytes share 100 bytes/s until 2 s. Then the remaining 200 bytes have the link alone.
  EXPECT_EQ(Ends({100}, {{0, OneMessage(100, {{0, 1}})}, {0, OneMessage(300, {{0, 1}})}}),
            (std::vector<int64_t>{2000 * kMillisecond, 4000 * kMillisecond}));
  // The second flow begins at 1 s, when the first has moved 100 of 200 bytes. Both then have 50 bytes/s until 3 s.
  EXPECT_EQ(Ends({100}, {{0, OneMessage(200, {{0, 1}})}, {1000 * kMillisecond, OneMessage(200, {{0, 1}})}}),
            (std::vector<int64_t>{3000 * kMillisecond, 4000 * kMillisecond}));
}

TEST(FlowClock, EndsRoundUp) {
  // 1 byte at 3 bytes/s.
  EXPECT_EQ(Ends({3}, {{0, OneMessage(1, {{0, 1}})}}), (std::vector<int64_t>{333'333'333'334}));
  // Three messages share 10 bytes/s: each gets 3 bytes/s, and 1 byte/s is lost to rounding.
  EXPECT_EQ(Ends({10}, {{0, OneMessage(3, {{0, 3}})}}), (std::vector<int64_t>{1000 * kMillisecond}));
}

TEST(FlowClock, PhasesFollowEachOther) {
  const Flow flow = {.phases = {{.fixed_ps = 5},
                                {.fixed_ps = 0, .bytes = 0},
                                {.fixed_ps = 7, .bytes = 2, .loads = {{0, 1}}},
                                {.bytes = 3, .loads = {{1, 1}}}}};
  // Fixed parts use no capacity of a link: the other flow has link 0 alone until 12 ps.
  const int64_t begin = 12;
  EXPECT_EQ(Ends({1'000'000'000'000, 1'000'000'000'000}, {{0, flow}}), (std::vector<int64_t>{begin + 2 + 3}));
  EXPECT_EQ(Ends({1'000'000'000'000, 1'000'000'000'000}, {{0, flow}, {0, OneMessage(20, {{0, 1}})}}),
            (std::vector<int64_t>{begin + 4 + 3, 22}));
}

TEST(FlowClock, NothingToDoEndsAtOnce) {
  EXPECT_EQ(Ends({1}, {{3, Flow{}}, {3, Flow{.phases = {{}, {}}}}}), (std::vector<int64_t>{3, 3}));
}

TEST(FlowClock, EndsBeyondAllTimeAreNever) {
  const std::vector<int64_t> capacities = {1};
  const Flow flow = OneMessage(INT64_MAX, {{0, 1}});
  FlowClock clock(capacities);
  clock.Begin(0, flow);
  clock.Solve(0);
  EXPECT_EQ(clock.next(), FlowClock::kNever);
  EXPECT_FALSE(clock.empty());
}

TEST(FlowClock, MuchAtGreatSpeedsIsExact) {
  // A flow of 2^62 bytes at 2^62 bytes/s is joined at half time by another one of that size: 0.5 + 1 + 0.5 s.
  const int64_t much = int64_t{1} << 62;
  EXPECT_EQ(Ends({much}, {{0, OneMessage(much, {{0, 1}})}, {500 * kMillisecond, OneMessage(much, {{0, 1}})}}),
            (std::vector<int64_t>{1500 * kMillisecond, 2000 * kMillisecond}));
}

}  // namespace
}  // namespace weft::sim
