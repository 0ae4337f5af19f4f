#include "executor/job/store_state.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/job/reported_remotely.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1000000000;

// A state of `size` ranks, all of which have connected. Its functions return the answers as text: "1: value" for a
// value for rank 1, "2! why" for an error for rank 2, "2!! why" if another rank reports that error.
struct StoreUnderTest {
  explicit StoreUnderTest(int size, absl::Status failure = absl::OkStatus())
      : state(size, "10.0.0.1:29500", std::move(failure)) {
    for (int rank = 0; rank < size; ++rank) state.Come(rank);
  }
  std::vector<std::string> Ask(int rank, StoreRequest request, int64_t now_ns = 0) {
    std::vector<StoreAnswer> answers;
    state.Handle(rank, std::move(request), now_ns, &answers);
    return Texts(answers);
  }
  std::vector<std::string> Lose(int rank, const std::string& why) {
    std::vector<StoreAnswer> answers;
    state.Lose(rank, why, &answers);
    return Texts(answers);
  }
  std::vector<std::string> Expire(int64_t now_ns) {
    std::vector<StoreAnswer> answers;
    state.Expire(now_ns, &answers);
    return Texts(answers);
  }
  static std::vector<std::string> Texts(const std::vector<StoreAnswer>& answers) {
    std::vector<std::string> texts;
    for (const StoreAnswer& answer : answers) {
      texts.push_back(answer.status.ok() ? absl::StrCat(answer.rank, ": ", answer.value)
                                         : absl::StrCat(answer.rank, ReportedRemotely(answer.status) ? "!! " : "! ",
                                                        std::string(answer.status.message())));
    }
    return texts;
  }
  StoreState state;
};

StoreRequest Set(const std::string& key, const std::string& value) { return {StoreOperation::kSet, 0, key, value}; }
StoreRequest Get(const std::string& key) { return {StoreOperation::kGet, 0, key}; }
StoreRequest Wait(const std::string& key, uint64_t ms = 1000) { return {StoreOperation::kWait, ms, key}; }
StoreRequest Barrier(const std::string& key, uint64_t ms = 1000) { return {StoreOperation::kBarrier, ms, key}; }
StoreRequest Fail(const std::string& why) {
  return {StoreOperation::kFail, 0, "", EncodeFailure(absl::NotFoundError(why))};
}

TEST(StoreState, AnswersWaitersOnceTheValueIsSet) {
  StoreUnderTest store(3);
  EXPECT_THAT(store.Ask(0, Get("k")), ElementsAre("0! the store has no 'k'"));
  EXPECT_THAT(store.Ask(1, Wait("k")), IsEmpty());
  EXPECT_THAT(store.Ask(2, Wait("other")), IsEmpty());
  EXPECT_TRUE(store.state.waits(1));
  EXPECT_THAT(store.Ask(0, Set("k", "v")), ElementsAre("0: ", "1: v"));
  EXPECT_FALSE(store.state.waits(1));
  EXPECT_TRUE(store.state.waits(2));
  EXPECT_THAT(store.Ask(1, Wait("k")), ElementsAre("1: v"));
  // A second value of a key replaces the first.
  EXPECT_THAT(store.Ask(0, Set("k", "w")), ElementsAre("0: "));
  EXPECT_THAT(store.Ask(0, Get("k")), ElementsAre("0: w"));
}

TEST(StoreState, ABarrierIsPassedByAllTogetherAndOnce) {
  StoreUnderTest store(3);
  EXPECT_THAT(store.Ask(2, Barrier("b")), IsEmpty());
  EXPECT_THAT(store.Ask(0, Barrier("b")), IsEmpty());
  // A value with the name of a barrier does not affect the barrier.
  EXPECT_THAT(store.Ask(1, Set("b", "v")), ElementsAre("1: "));
  EXPECT_THAT(store.Ask(1, Barrier("b")), ElementsAre("1: ", "0: ", "2: "));
  EXPECT_THAT(store.Ask(1, Barrier("b")), ElementsAre("1! rank 1 is at barrier 'b' for the second time"));
}

TEST(StoreState, TheFirstFailureAnswersEverythingFromThenOn) {
  StoreUnderTest store(3);
  EXPECT_THAT(store.Ask(0, Wait("k")), IsEmpty());
  EXPECT_THAT(store.Ask(1, Wait("k")), IsEmpty());
  // The rank that failed reports it, even if it is waiting itself.
  EXPECT_THAT(store.Ask(1, Fail("no file")), ElementsAre("0!! no file", "1: say it"));
  EXPECT_FALSE(store.state.waits(1));
  EXPECT_THAT(store.Ask(2, Fail("no disk")), ElementsAre("2!! no file"));
  EXPECT_THAT(store.Ask(2, Set("k", "v")), ElementsAre("2!! no file"));
  EXPECT_THAT(store.Ask(1, Get("k")), ElementsAre("1! no file"));
  EXPECT_THAT(store.Lose(2, "it went"), IsEmpty());
  EXPECT_THAT(store.Ask(0, Get("k")), ElementsAre("0!! no file"));
}

TEST(StoreState, RankZeroReportsALostRank) {
  StoreUnderTest store(3);
  EXPECT_THAT(store.Ask(0, Barrier("b")), IsEmpty());
  EXPECT_THAT(store.Ask(2, Barrier("b")), IsEmpty());
  EXPECT_THAT(store.Lose(2, "it went"), ElementsAre("0! rank 2 was lost while the job was starting: it went"));
  EXPECT_THAT(store.Ask(1, Get("k")), ElementsAre("1!! rank 2 was lost while the job was starting: it went"));
}

TEST(StoreState, EarlierFailureOfRankZeroIsReportedFromTheStart) {
  StoreUnderTest store(2, absl::NotFoundError("no data"));
  EXPECT_THAT(store.Ask(1, Wait("k")), ElementsAre("1!! no data"));
  EXPECT_THAT(store.Ask(0, Get("k")), ElementsAre("0! no data"));
}

TEST(StoreState, NamesLateRanks) {
  StoreUnderTest store(3);
  EXPECT_EQ(store.state.NextDeadline(), -1);
  EXPECT_THAT(store.Ask(0, Barrier("b", 5000), kSecond), IsEmpty());
  EXPECT_THAT(store.Ask(1, Wait("k", 2000), kSecond), IsEmpty());
  EXPECT_EQ(store.state.NextDeadline(), 3 * kSecond);
  EXPECT_THAT(store.Expire(3 * kSecond - 1), IsEmpty());
  EXPECT_THAT(store.Expire(3 * kSecond), ElementsAre("1! nobody has set 'k' within 2 s"));
  EXPECT_EQ(store.state.NextDeadline(), 6 * kSecond);
  EXPECT_THAT(store.Expire(60 * kSecond), ElementsAre("0! ranks 1 and 2 did not reach 'b' within 5 s"));
  EXPECT_EQ(store.state.NextDeadline(), -1);
}

TEST(StoreState, ThoseThatNeverCameAreNamedFirst) {
  StoreState state(4, "10.0.0.1:29500", absl::OkStatus());
  state.Come(0);
  state.Come(2);
  EXPECT_FALSE(state.came(3));
  std::vector<StoreAnswer> answers;
  state.Handle(0, Wait("k", 2000), 0, &answers);
  state.Expire(2 * kSecond, &answers);
  EXPECT_THAT(StoreUnderTest::Texts(answers),
              ElementsAre("0! ranks 1 and 3 of 4 did not connect to 10.0.0.1:29500 within 2 s"));
}

TEST(StoreState, BoundsItsContents) {
  StoreUnderTest store(2);
  const std::string large(kMaxStoreMessageBytes - 1024, 'x');
  int stored = 0;
  while (store.Ask(0, Set(absl::StrCat("key ", stored), large)) == std::vector<std::string>{"0: "}) {
    ASSERT_LT(++stored, 100);
  }
  EXPECT_EQ(stored, static_cast<int>(kMaxStoredBytes / (large.size() + 6)));
  EXPECT_THAT(store.Ask(0, Get(absl::StrCat("key ", stored))),
              ElementsAre(absl::StrCat("0! the store has no 'key ", stored, "'")));
  // When the store is full, a value can still replace another value, and a smaller value frees memory for a new key.
  EXPECT_THAT(store.Ask(1, Set("key 0", large)), ElementsAre("1: "));
  EXPECT_THAT(store.Ask(1, Set("key 0", "")), ElementsAre("1: "));
  EXPECT_THAT(store.Ask(1, Set("key new", large)), ElementsAre("1: "));
}

TEST(NameRanks, FewAndMany) {
  EXPECT_EQ(NameRanks({3}), "rank 3");
  EXPECT_EQ(NameRanks({1, 3}), "ranks 1 and 3");
  EXPECT_EQ(NameRanks({1, 3, 5}), "ranks 1, 3 and 5");
  std::vector<int> many(100);
  for (int i = 0; i < 100; ++i) many[i] = i;
  EXPECT_EQ(NameRanks(many), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more");
}

}  // namespace
}  // namespace weft::exec
