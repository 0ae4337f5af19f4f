// Finds the makespan of the fastest order of a wave pipeline by exhaustive search, to show that Hanayo reaches it.
//
// Microbatches are alike, so it does not matter which of those that wait at a stage goes first. The state of a run is
// how many microbatches each stage has started, forwards and backwards, and which backwards are half done. The search
// keeps all states that are possible at time 0, 1, 2, ..., lets every free rank start any possible slot or none, and
// drops states that provably end too late. A slot costs 1 (forward) or 2 (backward), so all times are integers: nothing
// changes between two integers that would let a slot start there.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

class WaveSearch {
 public:
  WaveSearch(int ranks, int waves, int microbatches, int limit, bool prune = true)
      : microbatches_(microbatches), limit_(limit), prune_(prune), steps_of_(ranks) {
    const int stages = 2 * waves * ranks;
    const std::vector<int> lane = SnakePlacement(ranks, stages)[0];
    steps_.resize(2 * stages);
    for (int k = 0; k < 2 * stages; ++k) {
      const bool forward = k < stages;
      steps_[k].cost = forward ? 1 : 2;
      steps_of_[lane[forward ? k : 2 * stages - 1 - k]].push_back(k);
    }
    for (int k = 2 * stages - 2; k >= 0; --k) steps_[k].after = steps_[k + 1].after + steps_[k + 1].cost;
  }

  // True if all microbatches can be done by `deadline`.
  bool Fits(int deadline) const {
    States now = {State(steps_.size(), 0)};
    for (int time = 0; time < deadline && !now.empty(); ++time) {
      States next;
      for (const State& state : now) Advance(state, 0, Later(state), time + 1, deadline, &next);
      now = std::move(next);
      if (std::any_of(now.begin(), now.end(), [&](const State& state) { return Done(state); })) return true;
    }
    return false;
  }

 private:
  // One step of a microbatch's way through the pipeline: step k < S is the forward of stage k, then come the backwards
  // from S - 1 down.
  struct Step {
    int cost = 0;
    int after = 0;  // costs of all later steps
  };
  // For each step, at one time: the number of microbatches that have started it, plus kHalf if the last of them is half
  // done.
  using State = std::string;
  using States = std::unordered_set<State>;
  static constexpr char kHalf = 64;
  static int Started(const State& state, size_t k) { return state[k] & ~kHalf; }
  static bool Half(const State& state, size_t k) { return (state[k] & kHalf) != 0; }
  static int Ended(const State& state, size_t k) { return Started(state, k) - (Half(state, k) ? 1 : 0); }

  bool Done(const State& state) const { return Ended(state, steps_.size() - 1) == microbatches_; }

  // Number of microbatches that may have started step k by now.
  int Open(const State& state, size_t k) const {
    return k > 0 ? Ended(state, k - 1) : std::min(microbatches_, Ended(state, steps_.size() - 1) + limit_);
  }

  // The state after all half-done steps have ended.
  static State Later(State state) {
    for (char& step : state) step &= ~kHalf;
    return state;
  }

  // Adds to *next every state that can follow `state` one unit later. `later` is the following state with the changes
  // of the ranks before `rank`.
  void Advance(const State& state, size_t rank, const State& later, int time, int deadline, States* next) const {
    if (rank == steps_of_.size()) {
      if (!prune_ || EarliestEnd(later, time) <= deadline) next->insert(later);
      return;
    }
    Advance(state, rank + 1, later, time, deadline, next);
    const std::vector<int>& steps = steps_of_[rank];
    if (std::any_of(steps.begin(), steps.end(), [&](int k) { return Half(state, k); })) return;
    for (int k : steps) {
      if (Started(state, k) >= Open(state, k)) continue;
      State with = later;
      ++with[k];
      if (steps_[k].cost == 2) with[k] |= kHalf;
      Advance(state, rank + 1, with, time, deadline, next);
    }
  }

  // A lower bound on the end of all runs from `state` at `time`.
  int EarliestEnd(const State& state, int time) const {
    int end = time;
    // Lower bound on the time until step k can start once more.
    std::vector<int> wait(steps_.size(), 0);
    for (size_t k = 1; k < steps_.size(); ++k) {
      if (Started(state, k) < Ended(state, k - 1)) continue;
      wait[k] = Started(state, k) < Started(state, k - 1) ? 1 : wait[k - 1] + steps_[k - 1].cost;
    }
    for (const std::vector<int>& steps : steps_of_) {
      int work = 0, busy = 0, first = INT32_MAX, after = 0;
      for (int k : steps) {
        const int left = microbatches_ - Started(state, k);
        if (Half(state, k)) busy = 1;
        if (left == 0) continue;
        work += left * steps_[k].cost;
        first = std::min(first, wait[k]);
        after = steps_[k].after;  // costs after its highest remaining step
      }
      if (work > 0) end = std::max(end, time + std::max(busy, first) + work + after);
    }
    for (size_t k = 0; k < steps_.size(); ++k) {
      const int left = microbatches_ - Started(state, k);
      if (left > 0) end = std::max(end, time + wait[k] + left * steps_[k].cost + steps_[k].after);
    }
    return end;
  }

  int microbatches_;
  int limit_;
  bool prune_;
  std::vector<Step> steps_;
  std::vector<std::vector<int>> steps_of_;  // by rank, ascending
};

int64_t Makespan(int ranks, int waves, int microbatches, int limit = 0) {
  const PipelineSchedule schedule = *BuildSchedule(
      **FindSchedule("hanayo"), {.ranks = ranks, .microbatches = microbatches, .waves = waves, .limit = limit});
  return TimeSchedule(schedule, microbatches, {.forward = 1, .backward = 2})->makespan;
}

TEST(WaveSearch, BoundsDropNothingThatIsNeeded) {
  for (const auto& [ranks, microbatches, limit] :
       std::vector<std::tuple<int, int, int>>{{1, 3, 3}, {1, 3, 1}, {2, 2, 2}, {2, 3, 2}, {2, 3, 3}, {3, 2, 1}}) {
    const WaveSearch all(ranks, 1, microbatches, limit, /*prune=*/false), pruned(ranks, 1, microbatches, limit);
    int least = 0;
    while (!all.Fits(least)) ASSERT_LT(++least, 100);
    EXPECT_FALSE(pruned.Fits(least - 1)) << ranks << " " << microbatches << " " << limit;
    EXPECT_TRUE(pruned.Fits(least)) << ranks << " " << microbatches << " " << limit;
  }
}

// At N = P no order has a smaller bubble than (2P - 2)/W, and Hanayo reaches it.
TEST(HanayoExact, NoOrderIsFasterAtNEqualsP) {
  for (const auto& [ranks, waves] :
       std::vector<std::pair<int, int>>{{2, 1}, {2, 2}, {2, 4}, {3, 1}, {3, 2}, {4, 1}, {4, 2}, {4, 4}}) {
    const WaveSearch search(ranks, waves, ranks, ranks);
    const int least = 2 * waves * 3 * ranks + 2 * (2 * ranks - 2);
    EXPECT_EQ(Makespan(ranks, waves, ranks), least);
    EXPECT_FALSE(search.Fits(least - 1)) << "P=" << ranks << " W=" << waves;
    // This tests the search, not Hanayo: the search finds that order too.
    if (ranks < 4) {
      EXPECT_TRUE(search.Fits(least)) << "P=" << ranks << " W=" << waves;
    }
  }
}

// N = 2P = 8, W = 1, in half units. With 4 microbatches in flight the minimum is 33, and Hanayo reaches it. With 5 in
// flight the minimum is 29.5, and Hanayo takes 30. With 6 in flight Hanayo reaches the bound 3N + 3(P - 1)/2W = 28.5,
// which needs at least 6.
TEST(HanayoExact, TheBoundNeedsMoreInFlight) {
  EXPECT_EQ(Makespan(4, 1, 8), 66);
  EXPECT_FALSE(WaveSearch(4, 1, 8, 4).Fits(65));
  EXPECT_FALSE(WaveSearch(4, 1, 8, 5).Fits(58));
  EXPECT_TRUE(WaveSearch(4, 1, 8, 5).Fits(59));
  EXPECT_EQ(Makespan(4, 1, 8, 5), 60);
  EXPECT_FALSE(WaveSearch(4, 1, 8, 8).Fits(56));
  EXPECT_EQ(Makespan(4, 1, 8, 6), 57);
}

}  // namespace
}  // namespace weft
