#include "executor/collective.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "executor/exact192.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/units.h"

namespace weft {
namespace {

// Runs the all-reduce of `contributions[member]` on a thread per member, in place or not.
template <typename T>
std::vector<std::vector<std::vector<T>>> Reduce(absl::string_view algorithm, DType dtype,
                                                const std::vector<std::vector<std::vector<T>>>& contributions,
                                                bool in_place, int uses = 1) {
  const int members = static_cast<int>(contributions.size());
  auto endpoints = *(*FindTransport("inproc"))->open(members);
  const CollectiveEntry* entry = *FindCollective(algorithm);
  auto sources = contributions;
  auto results = contributions;
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      std::vector<CollectivePeer> peers;
      for (int i = 0; i < members; ++i) peers.push_back({i, 3});
      std::vector<ReducedBuffer> buffers;
      for (size_t b = 0; b < contributions[member].size(); ++b) {
        auto& destination = results[member][b];
        auto& source = in_place ? destination : sources[member][b];
        if (!in_place) {
          for (T& x : destination) std::memset(static_cast<void*>(&x), 0xAB, sizeof(T));
        }
        buffers.push_back({source.data(), destination.data(), dtype, static_cast<int64_t>(destination.size())});
      }
      auto reduce = *AllReduce::Create(*entry->Build(members), peers, member, buffers);
      for (int use = 0; use < uses; ++use) {
        ASSERT_TRUE(reduce->Start(*endpoints[member]).ok());
        while (!*reduce->Advance(*endpoints[member])) {
          ASSERT_TRUE(endpoints[member]->WaitForProgress(std::chrono::milliseconds(100)).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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

// The plan as its header describes it, on one thread: the oracle for the order of sums.
template <typename T>
void RunPlan(const CollectivePlan& plan, std::vector<std::vector<T>>& data) {
  for (const auto& round : plan.rounds) {
    const auto before = data;
    for (int member = 0; member < plan.members; ++member) {
      for (int chunk = 0; chunk < plan.chunks; ++chunk) {
        std::vector<int> from;
        bool copy = false;
        for (const CollectiveStep& step : round) {
          if (step.destination != member || step.chunk != chunk) continue;
          from.push_back(step.source);
          copy = step.op == CollectiveOp::kCopy;
        }
        if (from.empty()) continue;
        if (!copy) from.push_back(member);
        std::sort(from.begin(), from.end());
        const int64_t size = before[member].size();
        for (int64_t i = ChunkBegin(size, plan.chunks, chunk); i < ChunkBegin(size, plan.chunks, chunk + 1); ++i) {
          T sum = before[from[0]][i];
          for (size_t k = 1; k < from.size(); ++k) sum += before[from[k]][i];
          data[member][i] = sum;
        }
      }
    }
  }
}

template <typename T>
std::vector<std::vector<std::vector<T>>> RandomContributions(int members, const std::vector<int>& sizes, int seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::vector<T>>> result(members);
  for (auto& member : result) {
    for (int size : sizes) {
      auto& buffer = member.emplace_back(size);
      // Magnitudes far apart, so that the order of a sum shows in its bits.
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
  for (const CollectiveEntry& entry : Collectives()) {
    for (int members : {1, 2, 3, 4, 5}) {
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

TEST(AllReduceTest, AnElementsSumDoesNotDependOnItsNeighbours) {
  // Rule P10: alone or beside others, a buffer gets the same bits.
  for (const CollectiveEntry& entry : Collectives()) {
    const auto together = RandomContributions<float>(4, {100, 999, 5}, 3);
    const auto all = Reduce<float>(entry.name, FP32, together, true);
    std::vector<std::vector<std::vector<float>>> alone(4);
    for (int m = 0; m < 4; ++m) alone[m].push_back(together[m][1]);
    EXPECT_EQ(Reduce<float>(entry.name, FP32, alone, false)[2][0], all[2][1]) << std::string(entry.name);
  }
}

TEST(AllReduceTest, PiecesChangeNoBit) {
  // Buffers of several pieces, with chunks of unequal length, between small ones: the bits of the plan on the whole.
  for (const CollectiveEntry& entry : Collectives()) {
    // The pieces of a chunk depend on how many are received at a time.
    for (const auto& [members, size] : {std::pair(2, (1 << 20) + 131075), std::pair(5, 300003)}) {
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
  // 927 MB of a tied table's accumulators would be; nothing is touched before Start.
  float x = 0;
  for (const CollectiveEntry& entry : Collectives()) {
    for (int members : {2, 3, 8, 50}) {
      std::vector<CollectivePeer> peers;
      for (int i = 0; i < members; ++i) peers.push_back({i, 0});
      const auto reduce = *AllReduce::Create(*entry.Build(members), peers, members / 2,
                                             {{&x, &x, EXACT192, 50257 * 768}, {&x, &x, FP32, 3}, {&x, &x, FP64, 1}});
      EXPECT_LE(reduce->scratch_bytes(), AllReduce::kScratchBytes) << std::string(entry.name) << " " << members;
      EXPECT_GT(reduce->scratch_bytes(), 0);
    }
  }
}

TEST(AllReduceTest, RunsAgainAndOverSeveralBatches) {
  // Several times the scratch in all; in place, so a second use sums the sums.
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
  for (const CollectiveEntry& entry : Collectives()) {
    for (bool in_place : {false, true}) {
      const auto results = Reduce<Exact192>(entry.name, EXACT192, contributions, in_place);
      for (int m = 0; m < members; ++m) EXPECT_TRUE(results[m][0] == expected) << std::string(entry.name);
    }
  }
}

TEST(AllReduceTest, Bf16RoundsToNearestEven) {
  // 256 + 1 is half way between 256 and 258 in bf16: to even, 256. 258 + 1 goes to 260.
  auto bf16 = [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); };
  const std::vector<uint16_t> a = {bf16(256), bf16(258), bf16(1.5), bf16(INFINITY)};
  const std::vector<uint16_t> b = {bf16(1), bf16(1), bf16(2), bf16(-INFINITY)};
  std::vector<uint16_t> sum(4);
  const void* parts[] = {a.data(), b.data()};
  ASSERT_TRUE(SumParts(BF16, 4, parts, sum.data()));
  EXPECT_EQ(sum[0], bf16(256));
  EXPECT_EQ(sum[1], bf16(260));
  EXPECT_EQ(sum[2], bf16(3.5));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(sum[3]) << 16)));
}

TEST(AllReduceTest, RefusesWhatHasNoSum) {
  int32_t x = 0;
  const absl::Status status =
      AllReduce::Create(*(*FindCollective("ring"))->Build(1), {{0, 0}}, 0, {{&x, &x, INT32, 1}}).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("no sum of int32"));
  EXPECT_FALSE(AllReduce::Create(*(*FindCollective("ring"))->Build(2), {{0, 0}}, 0, {}).ok());
}

}  // namespace
}  // namespace weft
