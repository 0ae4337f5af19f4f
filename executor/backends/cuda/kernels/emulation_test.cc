#include "executor/backends/cuda/kernels/emulation.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "executor/backends/cuda/kernels/rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using testing::HasSubstr;

std::string Text(Outcome outcome) { return outcome == nullptr ? "" : outcome; }

// A kernel that calls a lambda of the test.
template <typename F>
struct Lambda {
  static constexpr int kMaxThreads = 1024;
  F f;
  template <typename Thread>
  void operator()(Thread& thread) const {
    f(thread);
  }
};

template <typename F>
std::string Launch(int64_t blocks, int threads, int64_t shared, F f) {
  return Text(LaunchKernel(Lambda<F>{f}, blocks, threads, shared, nullptr));
}

// Launches in both orders of turns.
template <typename F>
std::string LaunchBoth(int64_t blocks, int threads, int64_t shared, F f) {
  emulation::SetReversed(true);
  const std::string first = Launch(blocks, threads, shared, f);
  emulation::SetReversed(false);
  const std::string second = Launch(blocks, threads, shared, f);
  EXPECT_EQ(first.empty(), second.empty()) << first << second;
  return second;
}

TEST(Emulation, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> seen(5 * 64);
  EXPECT_EQ(LaunchBoth(5, 64, 0, [&](auto& t) { ++seen[t.block() * t.count() + t.index()]; }), "");
  EXPECT_THAT(seen, testing::Each(2));
  EXPECT_EQ(Launch(0, 64, 0, [&](auto& t) { ++seen[0]; }), "");
  EXPECT_EQ(seen[0], 2);
}

TEST(Emulation, BarriersSeparateWritesFromReads) {
  std::vector<int> out(256);
  EXPECT_EQ(LaunchBoth(1, 256, 256 * 4,
                       [&](auto& t) {
                         const auto shared = t.template Shared<int>(0, 256);
                         for (int round = 0; round < 3; ++round) {
                           shared.Put(t.index(), t.index() + round);
                           t.Sync();
                           out[t.index()] = shared[255 - t.index()];
                           t.Sync();
                         }
                       }),
            "");
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], 255 - i + 2);
}

TEST(Emulation, SumsOverWarpsAndBlocks) {
  std::vector<double> sums(128), warp_sums(128);
  EXPECT_EQ(LaunchBoth(1, 128, kBlockSumBytes,
                       [&](auto& t) {
                         warp_sums[t.index()] = WarpSum(t, static_cast<double>(t.index()));
                         sums[t.index()] = BlockSum(t, static_cast<double>(t.index()));
                         sums[t.index()] += BlockSum(t, 1.0);
                       }),
            "");
  EXPECT_THAT(sums, testing::Each(127 * 64 + 128));
  EXPECT_EQ(warp_sums[40], 32 * 32 + 31 * 16);
}

TEST(Emulation, LanesExchangeEvenIfTheyRunAhead) {
  std::vector<int> out(64);
  EXPECT_EQ(LaunchBoth(1, 64, 0,
                       [&](auto& t) {
                         int x = t.index();
                         for (int i = 0; i < 40; ++i) x = t.Shuffle(x, (t.lane() + 1) % 32);
                         out[t.index()] = x;
                       }),
            "");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i / 32 * 32 + (i + 40) % 32);
}

TEST(Emulation, FindsThreadsThatMissABarrier) {
  EXPECT_THAT(LaunchBoth(3, 64, 0,
                         [](auto& t) {
                           if (t.index() != 17) t.Sync();
                         }),
              HasSubstr("63 wait, 1 of 64 are done"));
}

TEST(Emulation, FindsDifferentBarriers) {
  // The kernel is not written inside the macro, where all its code would be on one line.
  const auto kernel = [](auto& t) {
    if (t.index() < 32) {
      t.Sync();
    } else {
      t.Sync();
    }
  };
  EXPECT_THAT(LaunchBoth(1, 64, 0, kernel), HasSubstr("threads of a block wait at different barriers"));
}

TEST(Emulation, FindsShufflesWithoutAllLanes) {
  EXPECT_THAT(LaunchBoth(1, 64, 0,
                         [](auto& t) {
                           if (t.lane() != 3) t.ShuffleXor(1, 1);
                         }),
              HasSubstr("threads wait for others that do not come"));

  const auto kernel = [](auto& t) {
    if (t.lane() < 8) {
      t.ShuffleXor(1, 1);
    } else {
      t.Shuffle(1, 0);
    }
  };
  EXPECT_THAT(LaunchBoth(1, 32, 0, kernel), HasSubstr("lanes of a warp shuffle at different places"));
}

// The emulation finds such uses whatever the order in which threads take their turns.
TEST(Emulation, FindsUsesOfSharedMemoryWithoutABarrier) {
  const auto launch = [](auto f) {
    return LaunchBoth(2, 64, 256, [&](auto& t) { f(t, t.template Shared<int>(0, 64)); });
  };
  const auto missing = HasSubstr("two threads use shared memory without a barrier between them, one to write");
  const auto read_after_write = [](auto& t, const auto& shared) {
    shared.Put(t.index(), 1);
    if (t.index() < 63) static_cast<void>(shared[t.index() + 1]);
  };
  EXPECT_THAT(launch(read_after_write), missing);
  const auto written_twice = [](auto& t, const auto& shared) { shared.Put(t.index() / 2, t.index()); };
  EXPECT_THAT(launch(written_twice), missing);
  // All threads read, and one of them writes again without a barrier.
  const auto write_after_read = [](auto& t, const auto& shared) {
    if (t.index() == 0) shared.Put(0, 1);
    t.Sync();
    if (shared[0] == 1 && t.index() == 0) shared.Put(0, 2);
  };
  EXPECT_THAT(launch(write_after_read), missing);
  // A shuffle does not order memory accesses.
  const auto only_a_shuffle = [](auto& t, const auto& shared) {
    shared.Put(t.index(), 1);
    t.ShuffleXor(1, 1);
    static_cast<void>(shared[t.index() ^ 1]);
  };
  EXPECT_THAT(launch(only_a_shuffle), missing);
  const auto good = [](auto& t, const auto& shared) {
    shared.Put(t.index(), shared[t.index()]);
    t.Sync();
    static_cast<void>(shared[63 - t.index()] + shared[0]);
    t.Sync();
    shared.Put(t.index(), 2);
  };
  EXPECT_EQ(launch(good), "");
  // One thread uses part of a larger element of another thread.
  EXPECT_THAT(LaunchBoth(1, 32, 256,
                         [](auto& t) {
                           if (t.index() == 0) t.template Shared<double>(0, 8).Put(3, 1);
                           if (t.index() == 1) t.template Shared<int>(0, 16).Put(7, 1);
                         }),
              missing);
}

// A copy to shared memory is visible to its thread after the thread has waited for it, and to other threads after a
// barrier.
TEST(Emulation, CopiesAreThereWhenTheyAreWaitedFor) {
  alignas(16) uint32_t from[3][64 * 4];
  for (int i = 0; i < 3 * 64 * 4; ++i) from[i / 256][i % 256] = static_cast<uint32_t>(i);
  std::vector<uint32_t> early(64), first(64), others(64);
  const auto copy = [&](auto& t, int i) {
    t.CopyAsync((i * 64 + t.index()) * 16, &from[i][t.index() * 4]);
    t.EndCopies();
  };
  const auto word = [&](auto& t, int i, int thread) { return t.SharedWords((i * 64 + thread) * 16).word[3]; };
  EXPECT_EQ(LaunchBoth(1, 64, 3 * 64 * 16,
                       [&](auto& t) {
                         for (int i = 0; i < 3; ++i) copy(t, i);
                         early[t.index()] = word(t, 0, t.index());
                         t.template AwaitCopies<2>();
                         first[t.index()] = word(t, 0, t.index()) + (word(t, 1, t.index()) == 0xffffffff ? 0 : 1);
                         t.template AwaitCopies<0>();
                         t.Sync();
                         others[t.index()] = word(t, 2, 63 - t.index());
                       }),
            "");
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(early[i], 0xffffffff);
    EXPECT_EQ(first[i], i * 4 + 3);
    EXPECT_EQ(others[i], 2 * 256 + (63 - i) * 4 + 3);
  }
  const auto no_barrier = [&](auto& t) {
    copy(t, 0);
    t.template AwaitCopies<0>();
    static_cast<void>(word(t, 0, 63 - t.index()));
  };
  EXPECT_THAT(LaunchBoth(1, 64, 64 * 16, no_barrier),
              HasSubstr("two threads use shared memory without a barrier between them, one to write"));
  EXPECT_THAT(Launch(1, 32, 64 * 16, [&](auto& t) { t.CopyAsync(8, from[0]); }), HasSubstr("is not aligned"));
  EXPECT_THAT(Launch(1, 32, 64 * 16, [&](auto& t) { t.CopyAsync(0, &from[0][1]); }), HasSubstr("is not aligned"));
  EXPECT_THAT(Launch(1, 32, 64 * 16,
                     [&](auto& t) {
                       for (int i = 0; i < 40; ++i) t.CopyAsync(t.index() * 16, from[0]);
                     }),
              HasSubstr("more asynchronous copies of a thread than the emulation keeps"));
}

TEST(Emulation, BoundsSharedMemory) {
  EXPECT_THAT(Launch(1, 32, 64, [](auto& t) { t.template Shared<float>(0, 16).Put(16 + t.index(), 1); }),
              HasSubstr("shared memory out of range: element, of: 16, 16"));
  EXPECT_THAT(Launch(1, 32, 64, [](auto& t) { t.template Shared<float>(4, 16).Put(0, 1); }),
              HasSubstr("bytes 4 to 68 of 64"));
  EXPECT_THAT(Launch(1, 32, 64, [](auto& t) { t.template Shared<double>(4, 1).Put(0, 1); }), HasSubstr("not aligned"));
  EXPECT_THAT(Launch(1, 32, int64_t{1} << 20, [](auto& t) {}), HasSubstr("163 KiB"));
  float first = 0;
  EXPECT_EQ(Launch(2, 32, 64, [&](auto& t) { first = t.template Shared<float>(0, 16)[3]; }), "");
  EXPECT_TRUE(std::isnan(first));
}

TEST(Emulation, GoesOnAfterAFailure) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(Launch(1, 64, 0,
                     [](auto& t) {
                       if (t.index() > 5) t.Sync();
                     }),
              "");
    std::vector<int> seen(64);
    EXPECT_EQ(Launch(1, 64, 0,
                     [&](auto& t) {
                       t.Sync();
                       ++seen[t.index()];
                     }),
              "");
    EXPECT_THAT(seen, testing::Each(1));
  }
}

TEST(Emulation, RefusesPartsOfWarpsAndLargeBlocks) {
  EXPECT_NE(Launch(1, 33, 0, [](auto& t) {}), "");
  EXPECT_NE(Launch(1, 2048, 0, [](auto& t) {}), "");
  EXPECT_NE(Launch(int64_t{1} << 31, 32, 0, [](auto& t) {}), "");
}

TEST(Access, MovesEightElementsOfEveryType) {
  for (const Type type : {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16}) {
    alignas(64) unsigned char from[128] = {}, to[128] = {};
    const Array a{from, type}, b{to, type};
    const double values[kBlock] = {0, 1, -2, 0.5, 1024, -0.125, 3, 7};
    for (int i = 0; i < kBlock; ++i) Store<double>(a, 8 + i, values[i]);
    const auto check = [&]<typename C>(C) {
      C x[kBlock];
      LoadBlock(a, 8, x);
      for (int i = 0; i < kBlock; ++i) EXPECT_EQ(x[i], values[i]);
      StoreBlock(b, 0, x);
      for (int i = 0; i < kBlock; ++i) EXPECT_EQ(Load<double>(b, i), values[i]);
      // Three elements at an odd position, which needs no alignment.
      LoadSome(a, 9, 3, false, x);
      EXPECT_EQ(x[2], values[3]);
      EXPECT_EQ(x[3], 0);
      WriteSome(b, 1, 3, false, true, x);
      EXPECT_EQ(Load<double>(b, 1), 2 * values[1]);
      EXPECT_EQ(Load<double>(b, 4), values[4]);
    };
    check(1.0);
    check(1.0f);
  }
}

TEST(Access, FindsSixteenBytesThatAreNotAligned) {
  alignas(64) float x[16] = {};
  EXPECT_THAT(Launch(1, 32, 0,
                     [&](auto& t) {
                       float y[kBlock];
                       LoadBlock(Array{x, Type::kFp32}, 1, y);
                     }),
              HasSubstr("not aligned"));
}

TEST(Numbers, DoublesAreRoundedOnce) {
  // This number is just above the midpoint of two bf16 numbers, by less than a unit in the last place of a float.
  EXPECT_EQ(ToBf16(1 + 0x1p-8 + 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(ToBf16(1 + 0x1p-8).bits, 0x3f80);
  EXPECT_EQ(ToFp16(1 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
  EXPECT_EQ(ToFp16(1 + 0x1p-11).bits, 0x3c00);
  EXPECT_EQ(ToFp16(65520.0).bits, 0x7c00);
  EXPECT_EQ(ToFloat(ToFp16(-0x1p-24f)), -0x1p-24f);
}

}  // namespace
}  // namespace weft::exec::cuda
