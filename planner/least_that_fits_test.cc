#include "planner/least_that_fits.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;

// Fits if every change is at least as strong as in `least`.
std::function<TryOutcome(const Strengths&)> AtLeast(const Strengths& least, int* tries) {
  return [least, tries](const Strengths& tried) {
    ++*tries;
    for (size_t i = 0; i < tried.size(); ++i) {
      if (tried[i] < least[i]) return TryOutcome::kDoesNotFit;
    }
    return TryOutcome::kFits;
  };
}

TEST(LeastThatFits, IsTheLeast) {
  for (int a = 0; a <= 1; ++a) {
    for (int b = 0; b <= 3; ++b) {
      for (int c = 0; c <= 13; ++c) {
        int tries = 0;
        const auto least = LeastThatFits({1, 3, 13}, 2, AtLeast({a, b, c}, &tries));
        ASSERT_TRUE(least.has_value());
        EXPECT_THAT(*least, ElementsAre(a, b, c));
        EXPECT_LE(tries, 1 + 1 + 2 + 4);
      }
    }
  }
  int tries = 0;
  EXPECT_FALSE(LeastThatFits({1, 3, 13}, 2, AtLeast({2, 0, 0}, &tries)).has_value());
  EXPECT_EQ(tries, 1);
}

// Each of the two changes is enough alone, so the search drops the first one.
TEST(LeastThatFits, SparesTheFirstFirst) {
  const auto attempt = [](const Strengths& s) { return s[0] + s[1] > 0 ? TryOutcome::kFits : TryOutcome::kDoesNotFit; };
  EXPECT_THAT(*LeastThatFits({1, 1}, 1, attempt), ElementsAre(0, 1));
}

TEST(LeastThatFits, LeavesOutWhatDoesNotGoWithTheOthers) {
  const auto fitting = [](int needed) {
    return [needed](const Strengths& s) {
      if (s[0] > 0 && s[1] > 0) return TryOutcome::kRefused;
      return s[0] + s[1] + s[2] >= needed ? TryOutcome::kFits : TryOutcome::kDoesNotFit;
    };
  };
  EXPECT_THAT(*LeastThatFits({1, 1, 1}, 2, fitting(2)), ElementsAre(1, 0, 1));
  EXPECT_THAT(*LeastThatFits({1, 1, 1}, 2, fitting(1)), ElementsAre(1, 0, 0));
  EXPECT_FALSE(LeastThatFits({1, 1, 1}, 2, fitting(3)).has_value());
}

TEST(LeastThatFits, TakesWhatIsSlowNoFurtherThanThereIsTime) {
  const auto fitting = [](int least) {
    return [least](const Strengths& s) {
      if (s[1] > 5) return TryOutcome::kTooLong;
      return s[1] >= least ? TryOutcome::kFits : TryOutcome::kDoesNotFit;
    };
  };
  EXPECT_THAT(*LeastThatFits({1, 9}, 1, fitting(4)), ElementsAre(0, 4));
  EXPECT_FALSE(LeastThatFits({1, 9}, 1, fitting(6)).has_value());
  EXPECT_FALSE(LeastThatFits({1}, 0, [](const Strengths&) { return TryOutcome::kTooLong; }).has_value());
}

// If a try takes too long even without the slow change, the other change is made weaker too. The result has as much of
// both as the time allows.
TEST(LeastThatFits, BalancesSlowChangesWithinTheTimeLimit) {
  const auto attempt = [](const Strengths& s) {
    if (s[0] > 2 || s[0] * s[1] > 4) return TryOutcome::kTooLong;
    return s[0] + s[1] >= 4 ? TryOutcome::kFits : TryOutcome::kDoesNotFit;
  };
  EXPECT_THAT(*LeastThatFits({8, 9}, 1, attempt), ElementsAre(2, 2));
}

// The result is the best one found before the stop, though weaker changes may be enough.
TEST(LeastThatFits, StopsWhereNothingMoreIsTried) {
  int left = 2, tries = 0;
  const auto limited = [&](const Strengths& s) {
    return left-- > 0 ? AtLeast({0, 0}, &tries)(s) : TryOutcome::kStopped;
  };
  EXPECT_THAT(*LeastThatFits({1, 1}, 1, limited), ElementsAre(0, 1));
  EXPECT_FALSE(LeastThatFits({1, 1}, 1, limited).has_value());
}

}  // namespace
}  // namespace weft::planner
