#include "executor/collective/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "executor/numerics/exact192.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// Runs a collective over `buffers(member)` `uses` times, with one thread per member.
template <typename F>
void RunMembers(absl::string_view algorithm, CollectiveKind kind, int members, F buffers, int uses = 1) {
  auto endpoints = *(*FindTransport("inproc"))->open(members);
  const CollectiveEntry* entry = *FindCollective(algorithm);
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      std::vector<CollectivePeer> peers;
      for (int i = 0; i < members; ++i) peers.push_back({i, 3});
      auto communicator = *Communicator::Create(peers, member);
      auto collective = communicator->Prepare(*entry, kind, buffers(member));
      ASSERT_TRUE(collective.ok()) << collective.status();
      EXPECT_LE(communicator->scratch_bytes(), Communicator::kScratchBytes);
      for (int use = 0; use < uses; ++use) {
        ASSERT_TRUE(communicator->Start(*endpoints[member], **collective).ok());
        while (!*communicator->Advance(*endpoints[member])) {
          ASSERT_TRUE(endpoints[member]->WaitForProgress(std::chrono::milliseconds(100)).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Runs the all-reduce of `contributions[member]`, in place or not.
template <typename T>
std::vector<std::vector<std::vector<T>>> Reduce(absl::string_view algorithm, DType dtype,
                                                const std::vector<std::vector<std::vector<T>>>& contributions,
                                                bool in_place, int uses = 1) {
  const int members = static_cast<int>(contributions.size());
  auto sources = contributions;
  auto results = contributions;
  RunMembers(
      algorithm, CollectiveKind::kAllReduce, members,
      [&](int member) {
        std::vector<CollectiveBuffer> buffers;
        for (size_t b = 0; b < contributions[member].size(); ++b) {
          auto& destination = results[member][b];
          auto& source = in_place ? destination : sources[member][b];
          if (!in_place) {
            for (T& x : destination) std::memset(static_cast<void*>(&x), 0xAB, sizeof(T));
          }
          buffers.push_back(
              {source.data(), dtype, static_cast<int64_t>(source.size()), destination.data(), dtype, false});
        }
        return buffers;
      },
      uses);
  if (!in_place) {
    for (int member = 0; member < members; ++member) {
      for (size_t b = 0; b < contributions[member].size(); ++b) {
        if (sources[member][b].empty()) continue;
        EXPECT_EQ(std::memcmp(sources[member][b].data(), contributions[member][b].data(),
                              sources[member][b].size() * sizeof(T)),
                  0)
            << "a source was changed";
      }
    }
  }
  return results;
}

// Runs the plan as schedules/collective/plan.h defines it, on one thread. This is the oracle for the order of sums.
template <typename T>
void RunPlan(const CollectivePlan& plan, std::vector<std::vector<T>>& data) {
  struct Update {
    int member;
    int64_t begin;
    std::vector<T> values;
  };
  for (const auto& round : plan.rounds) {
    std::vector<Update> updates;
    for (size_t i = 0; i < round.size();) {
      const CollectiveStep& first = round[i];
      std::vector<int> from;
      for (; i < round.size() && round[i].destination == first.destination && round[i].chunk == first.chunk; ++i) {
        from.push_back(round[i].source);
      }
      if (first.op == CollectiveOp::kReduce) from.push_back(first.destination);
      std::sort(from.begin(), from.end());
      const int64_t size = static_cast<int64_t>(data[first.destination].size());
      const int64_t begin = ChunkBegin(size, plan.chunks, first.chunk);
      const int64_t end = ChunkBegin(size, plan.chunks, first.chunk + 1);
      Update update = {first.destination, begin, {data[from[0]].begin() + begin, data[from[0]].begin() + end}};
      for (size_t k = 1; k < from.size(); ++k) {
        const T* term = data[from[k]].data() + begin;
        for (T& value : update.values) value += *term++;
      }
      updates.push_back(std::move(update));
    }
    for (const Update& update : updates) {
      std::copy(update.values.begin(), update.values.end(), data[update.member].begin() + update.begin);
    }
  }
}

// Returns the algorithms that consist of messages, without those whose rounds for this number of members equal an
// earlier algorithm's.
std::vector<CollectiveEntry> Different(int members, CollectiveKind kind) {
  std::vector<CollectiveEntry> different;
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    const bool known =
        members > 1 && std::any_of(different.begin(), different.end(), [&](const CollectiveEntry& other) {
          return other.Build(members, kind)->rounds == entry.Build(members, kind)->rounds;
        });
    if (!known) different.push_back(entry);
  }
  return different;
}

template <typename T>
std::vector<std::vector<std::vector<T>>> RandomContributions(int members, const std::vector<int>& sizes, int seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::vector<T>>> result(members);
  for (auto& member : result) {
    for (int size : sizes) {
      auto& buffer = member.emplace_back(size);
      // Magnitudes differ widely, so that the order of a sum shows in its bits.
      for (T& x : buffer) {
        x = static_cast<T>(std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), random() % 20));
      }
    }
  }
  return result;
}

template <typename T>
void CheckFollowsPlan(DType dtype) {
  int seed = 7;
  for (int members : {1, 2, 3, 4, 5, 6, 8}) {
    for (const CollectiveEntry& entry : Different(members, CollectiveKind::kAllReduce)) {
      const auto contributions = RandomContributions<T>(members, {1, 0, 1000, 17, 3}, ++seed);
      for (bool in_place : {false, true}) {
        const auto results = Reduce<T>(entry.name, dtype, contributions, in_place);
        for (size_t b = 0; b < contributions[0].size(); ++b) {
          std::vector<std::vector<T>> expected;
          for (int m = 0; m < members; ++m) expected.push_back(contributions[m][b]);
          RunPlan(*entry.Build(members), expected);
          for (int m = 0; m < members; ++m) {
            EXPECT_EQ(results[m][b], expected[m])
                << std::string(entry.name) << " members " << members << " member " << m << " buffer " << b;
            EXPECT_EQ(results[m][b], results[0][b]);
          }
        }
      }
    }
  }
}

TEST(AllReduceTest, FollowsThePlanInFp64) { CheckFollowsPlan<double>(FP64); }
TEST(AllReduceTest, FollowsThePlanInFp32) { CheckFollowsPlan<float>(FP32); }

TEST(AllReduceTest, AnElementsSumDoesNotDependOnItsNeighbors) {
  // Rule P10: alone or beside others, a buffer gets the same bits.
  for (const CollectiveEntry& entry : Different(4, CollectiveKind::kAllReduce)) {
    const auto together = RandomContributions<float>(4, {100, 999, 5}, 3);
    const auto all = Reduce<float>(entry.name, FP32, together, true);
    std::vector<std::vector<std::vector<float>>> alone(4);
    for (int m = 0; m < 4; ++m) alone[m].push_back(together[m][1]);
    EXPECT_EQ(Reduce<float>(entry.name, FP32, alone, false)[2][0], all[2][1]) << std::string(entry.name);
  }
}

TEST(AllReduceTest, PiecesChangeNoBit) {
  // Buffers of several pieces, with chunks of unequal length, lie between small ones. The bits are those of the plan
  // run on the whole buffer. How a chunk is cut into pieces depends on how many messages a member receives at a time.
  for (const auto& [members, size] : {std::pair(2, (1 << 20) + 131075), std::pair(5, 300003)}) {
    for (const CollectiveEntry& entry : Different(members, CollectiveKind::kAllReduce)) {
      const auto contributions = RandomContributions<double>(members, {7, size, 100}, members);
      const auto results = Reduce<double>(entry.name, FP64, contributions, members == 5);
      for (size_t b = 0; b < contributions[0].size(); ++b) {
        std::vector<std::vector<double>> expected;
        for (int m = 0; m < members; ++m) expected.push_back(contributions[m][b]);
        RunPlan(*entry.Build(members), expected);
        for (int m = 0; m < members; ++m) {
          EXPECT_TRUE(results[m][b] == expected[m]) << std::string(entry.name) << " " << members << " buffer " << b;
        }
      }
    }
  }
}

TEST(AllReduceTest, ScratchIsBounded) {
  // The exact accumulators of one tied embedding table take 926 MB, and this buffer is 600 times as large. Its memory
  // need not exist, because nothing is touched before Start.
  float x = 0;
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    for (int members : {2, 3, 8, 50}) {
      std::vector<CollectivePeer> peers;
      for (int i = 0; i < members; ++i) peers.push_back({i, 0});
      for (const CollectiveKind kind : kCollectiveKinds) {
        float y = 0;
        auto communicator = *Communicator::Create(peers, members / 2);
        const int64_t table = int64_t{50257} * 768 * 600;
        const auto collective = communicator->Prepare(entry, kind,
                                                      {{&x, EXACT192, table, &y, EXACT192, false},
                                                       {&x, FP32, 600, &y, FP32, false},
                                                       {&x, FP64, 1200, &y, FP64, false}});
        ASSERT_TRUE(collective.ok()) << collective.status();
        EXPECT_LE(communicator->scratch_bytes(), Communicator::kScratchBytes) << entry.name << " " << members;
        // Gathered data is received directly at its final place.
        EXPECT_EQ(communicator->scratch_bytes() > 0, kind != CollectiveKind::kAllGather);
      }
    }
  }
}

TEST(AllReduceTest, RunsAgainAndOverSeveralBatches) {
  // All buffers together are several times the scratch memory. They are reduced in place, so a second use sums the
  // sums.
  const int size = 3 << 20;
  std::vector<std::vector<std::vector<double>>> contributions(3);
  for (int m = 0; m < 3; ++m) {
    for (int b = 0; b < 2; ++b) contributions[m].emplace_back(size, m + 1.0);
  }
  const auto results = Reduce<double>("ring", FP64, contributions, true, 2);
  for (int m = 0; m < 3; ++m) {
    for (int b = 0; b < 2; ++b) {
      for (int i = 0; i < size; i += 1001) ASSERT_EQ(results[m][b][i], 18.0);
    }
  }
}

TEST(AllReduceTest, ExactSumsDoNotDependOnTheOrder) {
  std::mt19937 random(11);
  const int members = 4, size = 101;
  std::vector<std::vector<std::vector<Exact192>>> contributions(members);
  std::vector<Exact192> expected(size, Exact192{});
  for (int m = 0; m < members; ++m) {
    auto& buffer = contributions[m].emplace_back(size, Exact192{});
    std::vector<double> x(size);
    for (double& v : x) v = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), int(random() % 120) - 60);
    ExactAccumulate(absl::MakeConstSpan(x), absl::MakeSpan(buffer));
    ExactAccumulate(absl::MakeConstSpan(x), absl::MakeSpan(expected));
  }
  for (const CollectiveEntry& entry : Different(members, CollectiveKind::kAllReduce)) {
    for (bool in_place : {false, true}) {
      const auto results = Reduce<Exact192>(entry.name, EXACT192, contributions, in_place);
      for (int m = 0; m < members; ++m) EXPECT_TRUE(results[m][0] == expected) << std::string(entry.name);
    }
  }
}

// Runs a reduce-scatter with any type of destination and returns what it leaves on the members.
template <typename S, typename D>
std::vector<std::vector<D>> Scatter(absl::string_view algorithm, DType from, DType to, bool accumulate,
                                    const std::vector<std::vector<std::vector<S>>>& contributions, D old) {
  const int members = static_cast<int>(contributions.size());
  auto sources = contributions;
  std::vector<std::vector<std::vector<D>>> results(members);
  RunMembers(algorithm, CollectiveKind::kReduceScatter, members, [&](int member) {
    std::vector<CollectiveBuffer> buffers;
    for (auto& source : sources[member]) results[member].emplace_back(source.size() / members, old);
    for (size_t b = 0; b < sources[member].size(); ++b) {
      buffers.push_back({sources[member][b].data(), from, static_cast<int64_t>(sources[member][b].size()),
                         results[member][b].data(), to, accumulate});
    }
    return buffers;
  });
  // By buffer: the ranges of all members, one after the other.
  std::vector<std::vector<D>> whole(contributions[0].size());
  for (int member = 0; member < members; ++member) {
    for (size_t b = 0; b < whole.size(); ++b) {
      whole[b].insert(whole[b].end(), results[member][b].begin(), results[member][b].end());
      if (sources[member][b].empty()) continue;
      EXPECT_EQ(std::memcmp(sources[member][b].data(), contributions[member][b].data(),
                            sources[member][b].size() * sizeof(S)),
                0)
          << "a source was changed";
    }
  }
  return whole;
}

TEST(ReduceScatterTest, IsTheRangeOfTheAllReduce) {
  int seed = 70;
  for (int members : {1, 2, 3, 4, 5, 6, 8}) {
    for (const CollectiveEntry& entry : Different(members, CollectiveKind::kReduceScatter)) {
      if (entry.all_reduce_only) continue;
      const auto contributions = RandomContributions<float>(members, {120, 0, 120 * 17, 120 * 150}, ++seed);
      const auto sums = Reduce<float>(entry.name, FP32, contributions, false);
      const auto ranges = Scatter<float, float>(entry.name, FP32, FP32, false, contributions, 3.0f);
      for (size_t b = 0; b < ranges.size(); ++b) {
        EXPECT_EQ(ranges[b], sums[0][b]) << std::string(entry.name) << " members " << members << " buffer " << b;
      }
      // The sum is added to the destination's values, which have another type.
      const auto added = Scatter<float, double>(entry.name, FP32, FP64, true, contributions, 0.125);
      for (size_t i = 0; i < added[2].size(); ++i) ASSERT_EQ(added[2][i], 0.125 + static_cast<double>(sums[0][2][i]));
    }
  }
}

TEST(ReduceScatterTest, PiecesChangeNoBit) {
  for (const CollectiveEntry& entry : Different(2, CollectiveKind::kReduceScatter)) {
    const auto contributions = RandomContributions<double>(2, {(1 << 20) + 1002, 10}, 17);
    const auto sums = Reduce<double>(entry.name, FP64, contributions, true);
    const auto ranges = Scatter<double, double>(entry.name, FP64, FP64, false, contributions, 0.0);
    for (size_t b = 0; b < ranges.size(); ++b) EXPECT_TRUE(ranges[b] == sums[0][b]) << std::string(entry.name);
  }
}

TEST(ReduceScatterTest, AddsContributionsToAnAccumulatorOneByOne) {
  int seed = 90;
  for (int members : {1, 2, 3, 5}) {
    for (const CollectiveEntry& entry : Different(members, CollectiveKind::kReduceScatter)) {
      const auto contributions = RandomContributions<float>(members, {30, 60 * 500}, ++seed);
      const Exact192 old = {{1, 0, 0}};
      for (const bool accumulate : {false, true}) {
        const auto ranges = Scatter<float, Exact192>(entry.name, FP32, EXACT192, accumulate, contributions, old);
        for (size_t b = 0; b < ranges.size(); ++b) {
          std::vector<Exact192> expected(ranges[b].size(), accumulate ? old : Exact192{});
          for (int m = members; m-- > 0;) {
            ExactAccumulate(absl::MakeConstSpan(contributions[m][b]), absl::MakeSpan(expected));
          }
          EXPECT_TRUE(ranges[b] == expected) << std::string(entry.name) << " members " << members;
        }
      }
    }
  }
}

TEST(ReduceScatterTest, AccumulatorsAreSummedExactly) {
  for (const CollectiveEntry& entry : Different(3, CollectiveKind::kReduceScatter)) {
    const auto terms = RandomContributions<double>(3, {30}, 5);
    std::vector<std::vector<std::vector<Exact192>>> contributions(3);
    std::vector<Exact192> expected(30, Exact192{{5, 0, 0}});
    for (int m = 0; m < 3; ++m) {
      auto& buffer = contributions[m].emplace_back(30, Exact192{});
      ExactAccumulate(absl::MakeConstSpan(terms[m][0]), absl::MakeSpan(buffer));
      ExactAccumulate(absl::MakeConstSpan(terms[m][0]), absl::MakeSpan(expected));
    }
    const auto ranges =
        Scatter<Exact192, Exact192>(entry.name, EXACT192, EXACT192, true, contributions, Exact192{{5, 0, 0}});
    EXPECT_TRUE(ranges[0] == expected) << std::string(entry.name);
  }
}

TEST(AllGatherTest, MembersOneAfterTheOther) {
  for (int members : {1, 2, 3, 5, 6}) {
    for (const CollectiveEntry& entry : Different(members, CollectiveKind::kAllGather)) {
      for (const bool in_place : {false, true}) {
        const std::vector<int> sizes = {3, 0, 1, 30001};
        const auto parts = RandomContributions<float>(members, sizes, members);
        auto sources = parts;
        std::vector<std::vector<std::vector<float>>> results(members);
        RunMembers(
            entry.name, CollectiveKind::kAllGather, members,
            [&](int member) {
              std::vector<CollectiveBuffer> buffers;
              for (int size : sizes) results[member].emplace_back(size * members, -1.0f);
              for (size_t b = 0; b < sizes.size(); ++b) {
                float* whole = results[member][b].data();
                const float* source = sources[member][b].data();
                if (in_place) {
                  std::copy(sources[member][b].begin(), sources[member][b].end(), whole + sizes[b] * member);
                  source = whole + sizes[b] * member;
                }
                // Any four-byte type will do, because nothing is computed.
                buffers.push_back({source, INT32, sizes[b], whole, INT32, false});
              }
              return buffers;
            },
            /*uses=*/2);
        for (int member = 0; member < members; ++member) {
          for (size_t b = 0; b < sizes.size(); ++b) {
            std::vector<float> expected;
            for (int m = 0; m < members; ++m) expected.insert(expected.end(), parts[m][b].begin(), parts[m][b].end());
            EXPECT_TRUE(results[member][b] == expected) << std::string(entry.name) << " " << members << " buffer " << b;
          }
        }
      }
    }
  }
}

TEST(CommunicatorTest, RefusesWhatCannotBe) {
  int32_t x = 0, y = 0;
  const CollectiveEntry& ring = **FindCollective("ring");
  auto communicator = *Communicator::Create({{0, 0}, {1, 0}, {2, 0}}, 1);
  const auto refusal = [&](CollectiveKind kind, DType from, int64_t elements, DType to, bool accumulate) {
    return std::string(
        communicator->Prepare(ring, kind, {{&x, from, elements, &y, to, accumulate}}).status().message());
  };
  EXPECT_THAT(refusal(CollectiveKind::kAllReduce, INT32, 1, INT32, false), HasSubstr("cannot sum int32"));
  EXPECT_THAT(refusal(CollectiveKind::kReduceScatter, FP32, 4, FP32, false),
              HasSubstr("4 elements for 3 members; nearest multiples: 3, 6"));
  EXPECT_THAT(refusal(CollectiveKind::kReduceScatter, EXACT192, 3, FP32, false),
              HasSubstr("exact192 cannot go to fp32"));
  EXPECT_THAT(refusal(CollectiveKind::kAllReduce, FP32, 1, FP64, false), HasSubstr("only a reduce-scatter"));
  EXPECT_THAT(refusal(CollectiveKind::kAllGather, FP32, 1, FP32, true), HasSubstr("only a reduce-scatter"));
  EXPECT_THAT(refusal(CollectiveKind::kAllGather, DTYPE_UNSPECIFIED, 1, FP32, false), HasSubstr("has no dtype"));
  EXPECT_FALSE(Communicator::Create({{0, 0}}, 1).ok());
  EXPECT_FALSE(Communicator::Create({}, 0).ok());
}

}  // namespace
}  // namespace weft::exec
