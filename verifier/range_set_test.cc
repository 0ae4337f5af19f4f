#include "verifier/range_set.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr int kBytes = 40;

// A slow model of a set: one bool per byte.
using Bytes = std::vector<bool>;

std::vector<std::pair<int64_t, int64_t>> RangesOf(const Bytes& bytes) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int b = 0; b < kBytes; ++b) {
    if (!bytes[b]) continue;
    if (b == 0 || !bytes[b - 1]) ranges.emplace_back(b, b);
    ranges.back().second = b + 1;
  }
  return ranges;
}

std::vector<std::pair<int64_t, int64_t>> RangesOf(const RangeSet& set) {
  return {set.ranges().begin(), set.ranges().end()};
}

class RangeSetTest : public testing::Test {
 protected:
  // A random range. It may be empty, or end before it begins.
  std::pair<int, int> Range() {
    const int begin = static_cast<int>(random_() % kBytes);
    return {begin, std::min<int>(kBytes, begin + static_cast<int>(random_() % 12) - 2)};
  }
  static void Put(std::pair<int, int> range, bool value, Bytes* bytes) {
    for (int b = range.first; b < range.second; ++b) (*bytes)[b] = value;
  }
  std::mt19937 random_{11};
};

TEST_F(RangeSetTest, AgreesWithASetOfBytes) {
  for (int round = 0; round < 300; ++round) {
    RangeSet set;
    Bytes bytes(kBytes, false);
    for (int i = 0; i < 60; ++i) {
      const auto range = Range();
      const bool adds = random_() % 5 < 3;
      adds ? set.Add(range.first, range.second) : set.Remove(range.first, range.second);
      Put(range, adds, &bytes);
      ASSERT_EQ(RangesOf(set), RangesOf(bytes)) << "round " << round << ", operation " << i;
      const auto asked = Range();
      const auto begin = bytes.begin() + asked.first, end = bytes.begin() + std::max(asked.first, asked.second);
      EXPECT_EQ(set.Covers(asked.first, asked.second), std::find(begin, end, false) == end);
      EXPECT_EQ(set.Overlaps(asked.first, asked.second), std::find(begin, end, true) != end);
      EXPECT_EQ(set.empty(), RangesOf(bytes).empty());
    }
  }
}

TEST_F(RangeSetTest, SetsAgreeWithSetsOfBytes) {
  for (int round = 0; round < 2000; ++round) {
    RangeSet a, b;
    Bytes in_a(kBytes, false), in_b(kBytes, false);
    for (int i = 0; i < static_cast<int>(random_() % 5); ++i) {
      const auto range = Range();
      a.Add(range.first, range.second), Put(range, true, &in_a);
    }
    for (int i = 0; i < static_cast<int>(random_() % 5); ++i) {
      const auto range = Range();
      b.Add(range.first, range.second), Put(range, true, &in_b);
    }
    bool covers = true;
    Bytes both = in_a, rest = in_a;
    for (int i = 0; i < kBytes; ++i) {
      covers = covers && (in_a[i] || !in_b[i]);
      both[i] = in_a[i] || in_b[i];
      rest[i] = in_a[i] && !in_b[i];
    }
    EXPECT_EQ(a.Covers(b), covers);
    RangeSet sum = a, difference = a;
    sum.Add(b);
    difference.Remove(b);
    EXPECT_EQ(RangesOf(sum), RangesOf(both));
    EXPECT_EQ(RangesOf(difference), RangesOf(rest));
    // Compares AddMissing with the model: the bytes of `asked` that are not in `a`, added to `b`.
    const auto asked = Range();
    Bytes missing = in_b;
    for (int i = asked.first; i < asked.second; ++i) missing[i] = missing[i] || !in_a[i];
    a.AddMissing(asked.first, asked.second, &b);
    EXPECT_EQ(RangesOf(b), RangesOf(missing));
  }
}

}  // namespace
}  // namespace weft
