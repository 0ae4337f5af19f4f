#include "compiler/memory/repetition_order.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

using Waits = std::vector<RepetitionOrder::Wait>;

TEST(RepetitionOrderTest, StreamOrderNeedsNoWait) {
  RepetitionOrder order;
  int compute = order.AddStream(true);
  int a = order.AddAction(compute), b = order.AddAction(compute);
  order.Require(a, b);
  order.Require(b, a, 1);
  order.Resolve();
  EXPECT_EQ(order.waits(b), Waits());
  EXPECT_EQ(order.waits(a), Waits());
}

TEST(RepetitionOrderTest, OtherStreamNeedsOneWaitAndImpliesEarlierSends) {
  RepetitionOrder order;
  int compute = order.AddStream(true), send = order.AddStream(true);
  int f0 = order.AddAction(compute), s0 = order.AddAction(send);
  int f1 = order.AddAction(compute), s1 = order.AddAction(send);
  int f2 = order.AddAction(compute), f3 = order.AddAction(compute);
  order.Require(f0, s0);
  order.Require(f1, s1);
  order.Require(s0, f2);
  order.Require(s1, f2);
  order.Require(s0, f3);
  order.Resolve();
  EXPECT_EQ(order.waits(f2), (Waits{{s1, 0}}));
  EXPECT_EQ(order.waits(f3), Waits());
  EXPECT_EQ(order.Finished(f2, send), 2);
  EXPECT_EQ(order.Finished(f1, send), 0);
}

TEST(RepetitionOrderTest, AFinishAfterTheEndIsNotImpliedByALaterOne) {
  RepetitionOrder order;
  int compute = order.AddStream(true), recv = order.AddStream(false);
  int r0 = order.AddAction(recv), r1 = order.AddAction(recv);
  int f = order.AddAction(compute);
  order.Require(r1, f);
  order.Require(r0, f);
  order.Resolve();
  EXPECT_EQ(order.waits(f), (Waits{{r0, 0}, {r1, 0}}));
}

TEST(RepetitionOrderTest, WaitsFromOneRepetitionToTheNext) {
  RepetitionOrder order;
  int compute = order.AddStream(true), recv = order.AddStream(false);
  int r0 = order.AddAction(recv), f0 = order.AddAction(compute);
  int r1 = order.AddAction(recv), f1 = order.AddAction(compute);
  order.Require(r0, f0);
  order.Require(r1, f1);
  order.Require(f1, r0, 1);
  order.Require(f1, r1, 1);
  order.Resolve();
  EXPECT_EQ(order.waits(r0), (Waits{{f1, 1}}));
  // r1 starts after the end of r0, which already waits for f1.
  EXPECT_EQ(order.waits(r1), Waits());
  EXPECT_EQ(order.Finished(r0, compute), 0);
}

// The oracle: computes reachability between the events of three repetitions explicitly.
struct Brute {
  int n;
  std::vector<std::vector<bool>> reach;

  Brute(const RepetitionOrder& order, const std::vector<bool>& finish_is_end) : n(order.size()) {
    constexpr int kRepetitions = 3;
    const int events = 3 * n * kRepetitions;  // start, end, finish
    std::vector<std::vector<int>> edges(events);
    auto event = [&](int repetition, int action, int what) { return 3 * (repetition * n + action) + what; };
    for (int r = 0; r < kRepetitions; ++r) {
      for (int a = 0; a < n; ++a) {
        edges[event(r, a, 0)].push_back(event(r, a, 1));
        edges[event(r, a, 1)].push_back(event(r, a, 2));
        if (finish_is_end[order.Stream(a)]) edges[event(r, a, 2)].push_back(event(r, a, 1));
        for (int next = a + 1; next < n * kRepetitions; ++next) {
          int rep = r + next / n, b = next % n;
          if (rep >= kRepetitions) break;
          if (order.Stream(b) == order.Stream(a)) {
            edges[event(r, a, 1)].push_back(event(rep, b, 0));
            break;
          }
        }
        for (const auto& wait : order.waits(a)) {
          if (r >= wait.distance) edges[event(r - wait.distance, wait.on, 2)].push_back(event(r, a, 0));
        }
      }
    }
    reach.assign(events, std::vector<bool>(events, false));
    for (int from = 0; from < events; ++from) {
      std::vector<int> stack = {from};
      while (!stack.empty()) {
        int at = stack.back();
        stack.pop_back();
        for (int to : edges[at]) {
          if (reach[from][to]) continue;
          reach[from][to] = true;
          stack.push_back(to);
        }
      }
    }
  }
  bool Before(int a, int repetition_a, int b, int repetition_b) const {
    return reach[3 * (repetition_a * n + a) + 2][3 * (repetition_b * n + b)];
  }
};

TEST(RepetitionOrderTest, RandomRequirementsHoldAndKnowledgeIsSound) {
  constexpr int kSeed = 4711;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    RepetitionOrder order;
    std::vector<bool> finish_is_end;
    for (int s = 0; s < 3; ++s) {
      finish_is_end.push_back(random() % 2 == 0);
      order.AddStream(finish_is_end.back());
    }
    const int n = 4 + random() % 8;
    for (int i = 0; i < n; ++i) order.AddAction(random() % 3);
    struct Needed {
      int before, after, distance;
    };
    std::vector<Needed> needed;
    for (int k = 0; k < 6; ++k) {
      int a = random() % n, b = random() % n;
      if (random() % 3 == 0) {
        needed.push_back({a, b, 1});
      } else if (a != b) {
        needed.push_back({std::min(a, b), std::max(a, b), 0});
      }
    }
    for (const Needed& need : needed) order.Require(need.before, need.after, need.distance);
    order.Resolve();
    Brute brute(order, finish_is_end);
    for (const Needed& need : needed) {
      for (int r = need.distance; r < 3; ++r) {
        EXPECT_TRUE(brute.Before(need.before, r - need.distance, need.after, r));
      }
    }
    std::vector<std::vector<int>> by_stream(3);
    for (int i = 0; i < n; ++i) by_stream[order.Stream(i)].push_back(i);
    for (int b = 0; b < n; ++b) {
      for (int s = 0; s < 3; ++s) {
        int count = order.Finished(b, s);
        for (int index = 0; index < count; ++index) EXPECT_TRUE(brute.Before(by_stream[s][index], 1, b, 1));
      }
    }
  }
}

TEST(RepetitionOrderTest, AddsNoWaitForAnOrderThatHolds) {
  RepetitionOrder order;
  const int a_stream = order.AddStream(true), b_stream = order.AddStream(true);
  const int a = order.AddAction(a_stream), b = order.AddAction(b_stream), c = order.AddAction(b_stream);
  order.Given(a, b);
  order.Given(c, a, 1);
  order.Require(a, c);
  order.Require(b, a, 1);
  order.Resolve();
  for (int action : {a, b, c}) EXPECT_TRUE(order.waits(action).empty()) << action;
  EXPECT_EQ(order.Finished(c, a_stream), 1);
  EXPECT_EQ(order.Finished(a, b_stream), 0);
}

}  // namespace
}  // namespace weft
