#include "simulator/engine/event_queue.h"

#include <algorithm>
#include <functional>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using Key = std::tuple<int64_t, uint32_t, int, uint32_t>;

Key KeyOf(const Event& event) { return {event.time, event.index(), static_cast<int>(event.kind()), event.detail()}; }

TEST(EventQueueTest, FieldsComeBackAsTheyWerePut) {
  EventQueue queue;
  const int64_t time = (int64_t{1} << 62) + 3;
  const uint32_t index = 0xffffffff, detail = (uint32_t{1} << 29) - 1;
  queue.Push(time, EventKind::kCollectiveFinish, index, detail);
  EXPECT_EQ(queue.time(), time);
  EXPECT_EQ(KeyOf(queue.top()), KeyOf(queue.Pop()));
  EXPECT_TRUE(queue.empty());
  queue.Push(0, EventKind::kTransferFinish, index, detail);
  EXPECT_EQ(KeyOf(queue.Pop()), Key(0, index, static_cast<int>(EventKind::kTransferFinish), detail));
}

// Events are popped by time, then index, kind and detail, in whatever order they were pushed.
TEST(EventQueueTest, PopsInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    EventQueue queue;
    std::vector<Key> expected;
    const auto later = std::greater<Key>();
    const int64_t times = 1 + random() % 40;
    for (int i = 0; i < 300; ++i) {
      if (!expected.empty() && random() % 3 == 0) {
        std::pop_heap(expected.begin(), expected.end(), later);
        ASSERT_EQ(KeyOf(queue.top()), expected.back()) << "round " << round;
        ASSERT_EQ(KeyOf(queue.Pop()), expected.back()) << "round " << round;
        expected.pop_back();
        continue;
      }
      const Key key = {static_cast<int64_t>(random() % times), random() % 5, static_cast<int>(random() % 5),
                       random() % 4};
      queue.Push(std::get<0>(key), static_cast<EventKind>(std::get<2>(key)), std::get<1>(key), std::get<3>(key));
      expected.push_back(key);
      std::push_heap(expected.begin(), expected.end(), later);
    }
    std::sort(expected.begin(), expected.end());
    for (const Key& key : expected) ASSERT_EQ(KeyOf(queue.Pop()), key) << "round " << round;
    EXPECT_TRUE(queue.empty());
  }
}

// Pushes and pops events in the way of many ranks that behave alike.
TEST(EventQueueTest, PopsRunsInOrder) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    EventQueue queue;
    std::vector<Key> expected;
    const auto later = std::greater<Key>();
    for (int i = 0; i < 40; ++i) {
      const int kind = static_cast<int>(random() % kEventKinds);
      // Sometimes events of two kinds alternate, and other runs have the same time.
      const int other = random() % 2 == 0 ? kind : static_cast<int>(random() % kEventKinds);
      const int64_t time = random() % 6;
      uint32_t index = random() % 20;
      for (int k = static_cast<int>(random() % 30); k > 0; --k) {
        const Key key = {time, index, k % 2 == 0 ? kind : other, 0};
        queue.Push(time, static_cast<EventKind>(std::get<2>(key)), index, 0);
        expected.push_back(key);
        std::push_heap(expected.begin(), expected.end(), later);
        index += random() % 3;
      }
      for (int k = static_cast<int>(random() % 30); k > 0 && !expected.empty(); --k) {
        std::pop_heap(expected.begin(), expected.end(), later);
        ASSERT_EQ(KeyOf(queue.Pop()), expected.back()) << "round " << round;
        expected.pop_back();
      }
      ASSERT_EQ(queue.empty(), expected.empty());
    }
    std::sort(expected.begin(), expected.end());
    for (const Key& key : expected) ASSERT_EQ(KeyOf(queue.Pop()), key) << "round " << round;
  }
}

}  // namespace
}  // namespace weft::sim
