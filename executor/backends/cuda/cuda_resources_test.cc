#include "executor/backends/cuda/cuda_resources.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "executor/backends/cuda/counting_device_testing.h"
#include "executor/testing/deferred_device.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

TEST(ScratchMemory, IsEachStreamsOwnAndGrows) {
  CountingDevice device;
  ScratchMemory scratch(&device);
  void* a = scratch.Get(0, 1000).value();
  void* b = scratch.Get(1, 1000).value();
  EXPECT_NE(a, b);
  EXPECT_EQ(scratch.Get(0, 5000).value(), a);
  EXPECT_EQ(device.allocations(), 2);
  const int64_t large = int64_t{1} << 20;
  void* c = scratch.Get(0, large).value();
  std::memset(c, 1, large);
  EXPECT_EQ(scratch.Get(0, 1000).value(), c);
  EXPECT_EQ(device.allocations(), 3);
}

TEST(ScratchMemory, AllocatesForTheFirstStreamBeforehand) {
  CountingDevice device;
  ScratchMemory scratch(&device);
  EXPECT_TRUE(scratch.Settle().ok());
  EXPECT_EQ(device.allocations(), 0);
  scratch.Reserve(300000);
  scratch.Reserve(100);
  EXPECT_TRUE(scratch.Settle().ok());
  EXPECT_TRUE(scratch.Settle().ok());
  EXPECT_EQ(device.allocations(), 1);
  std::memset(scratch.Get(3, 10).value(), 1, 300000);
  std::memset(scratch.Get(3, 300000).value(), 1, 300000);
  EXPECT_EQ(device.allocations(), 1);
  // Another stream gets a block of the reserved bytes with its first request.
  EXPECT_TRUE(scratch.Get(4, 10).ok());
  EXPECT_TRUE(scratch.Get(4, 300000).ok());
  EXPECT_EQ(device.allocations(), 2);
}

TEST(FixedTables, ThoseOfTheSameBytesAreOneAndOthersLieSideBySide) {
  CountingDevice device;
  FixedTables tables(&device);
  std::map<std::string, void*> seen;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 200; ++i) {
      const std::string bytes = std::string(static_cast<size_t>(i % 7) * 300 + 1, 'a') + std::to_string(i);
      void* const table = tables.Get(bytes).value();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(table) % 256, 0);
      if (round == 0) {
        EXPECT_TRUE(seen.emplace(bytes, table).second);
      }
      EXPECT_EQ(seen.at(bytes), table);
    }
  }
  // No table was overwritten by a later one.
  for (const auto& [bytes, table] : seen) EXPECT_EQ(std::memcmp(table, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(device.allocations(), 1);
  // A table larger than the free part gets memory of its own, however large it is.
  const std::string large(int64_t{1} << 20, 'x');
  void* const table = tables.Get(large).value();
  EXPECT_EQ(std::memcmp(table, large.data(), large.size()), 0);
  EXPECT_EQ(tables.Get(large).value(), table);
  EXPECT_EQ(device.allocations(), 2);
}

TEST(KeptTables, AreFoundByKeyAndStream) {
  CountingDevice device;
  KeptTables tables(&device);
  const KeptTables::Table first = tables.Get(0, {1, 2}, 100).value();
  EXPECT_FALSE(first.filled);
  const KeptTables::Table again = tables.Get(0, {1, 2}, 100).value();
  EXPECT_TRUE(again.filled);
  EXPECT_EQ(again.data, first.data);
  EXPECT_NE(tables.Get(1, {1, 2}, 100).value().data, first.data);
  EXPECT_NE(tables.Get(0, {1, 3}, 100).value().data, first.data);
  EXPECT_EQ(device.allocations(), 3);
}

TEST(KeptTables, ArePreparedOncePerKey) {
  CountingDevice device;
  KeptTables tables(&device);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(tables.Prepare({1}, 1000).ok());
  EXPECT_TRUE(tables.Prepare({2}, 2000).ok());
  EXPECT_EQ(device.allocations(), 2);
  EXPECT_FALSE(tables.Get(5, {2}, 2000).value().filled);
  EXPECT_FALSE(tables.Get(5, {1}, 1000).value().filled);
  EXPECT_TRUE(tables.Get(5, {2}, 2000).value().filled);
  EXPECT_EQ(device.allocations(), 2);
}

TEST(KeptTables, OldOnesMakeRoom) {
  CountingDevice device;
  KeptTables tables(&device);
  std::set<void*> places;
  for (double key = 0; key < 100; ++key) {
    const KeptTables::Table table = tables.Get(0, {key}, 64).value();
    EXPECT_FALSE(table.filled);
    EXPECT_EQ(tables.Get(0, {key}, 64).value().data, table.data);
    places.insert(table.data);
  }
  EXPECT_LE(places.size(), 16u);
  // The newest tables are still filled, the first one is not.
  EXPECT_TRUE(tables.Get(0, {95}, 64).value().filled);
  EXPECT_FALSE(tables.Get(0, {0}, 64).value().filled);
}

// Uploads more than the pinned memory holds, on a device that finishes work late.
TEST(Staging, BytesAreNotReplacedBeforeTheyAreTaken) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    DeferredDevice device(seed);
    Staging staging(&device);
    const int streams[] = {device.NewStream(ComputeDevice::Priority::kNormal).value(),
                           device.NewStream(ComputeDevice::Priority::kNormal).value()};
    constexpr int kUploads = 300, kInts = 32;
    auto* memory = static_cast<int32_t*>(device.Allocate(DEVICE, kUploads * kInts * 4).value());
    for (int i = 0; i < kUploads; ++i) {
      const int64_t bytes = 4 * (1 + i % kInts);
      ASSERT_TRUE(staging
                      .Upload(streams[i % 2], memory + i * kInts, bytes,
                              [&](void* to) {
                                for (int64_t j = 0; j < bytes / 4; ++j) static_cast<int32_t*>(to)[j] = 1000 * i + j;
                                return absl::OkStatus();
                              })
                      .ok());
    }
    std::vector<int32_t> got(kUploads * kInts);
    ASSERT_TRUE(device.CopyNow(got.data(), memory, kUploads * kInts * 4).ok());
    for (int i = 0; i < kUploads; ++i) {
      for (int j = 0; j < kInts; ++j)
        ASSERT_EQ(got[i * kInts + j], j <= i % kInts ? 1000 * i + j : 0) << "seed " << seed;
    }
  }
}

TEST(Staging, IsAllocatedBeforehand) {
  CountingDevice device;
  Staging staging(&device);
  staging.Reserve(1000);
  ASSERT_TRUE(staging.Settle().ok());
  const int before = device.allocations();
  EXPECT_GT(before, 0);
  std::vector<char> to(1000);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(staging
                    .Upload(0, to.data(), 1000,
                            [&](void* memory) {
                              std::memset(memory, i, 1000);
                              return absl::OkStatus();
                            })
                    .ok());
    EXPECT_EQ(to[999], i);
  }
  EXPECT_EQ(device.allocations(), before);
}

// The ring holds 32 uploads of average size if these fit into 16 MiB. It always holds two uploads of the largest size.
TEST(Staging, TakesAsMuchAsIsUploaded) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  CountingDevice device;
  Staging small(&device), mixed(&device), large(&device);
  for (int i = 0; i < 3; ++i) small.Reserve(1000);
  ASSERT_TRUE(small.Settle().ok());
  EXPECT_EQ(small.capacity(), 32 * 1024);
  // One upload of 100 MiB among small ones.
  mixed.Reserve(100 * kMiB);
  for (int i = 0; i < 9; ++i) mixed.Reserve(1000);
  ASSERT_TRUE(mixed.Settle().ok());
  EXPECT_EQ(mixed.capacity(), 200 * kMiB);
  for (int i = 0; i < 2; ++i) large.Reserve(3 * kMiB);
  ASSERT_TRUE(large.Settle().ok());
  EXPECT_EQ(large.capacity(), 16 * kMiB);
}

// Uploads bytes of random sizes, some larger than the initial ring, on a device that finishes work late.
TEST(Staging, PiecesOfTheRingDoNotOverlap) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    DeferredDevice device(seed);
    Staging staging(&device);
    for (const int64_t reserved : {500, 3000}) staging.Reserve(reserved);
    ASSERT_TRUE(staging.Settle().ok());
    const int streams[] = {device.NewStream(ComputeDevice::Priority::kNormal).value(),
                           device.NewStream(ComputeDevice::Priority::kNormal).value()};
    constexpr int kUploads = 100;
    constexpr int64_t kLargest = 100000;
    auto* memory = static_cast<char*>(device.Allocate(DEVICE, kUploads * kLargest).value());
    std::vector<int64_t> bytes(kUploads);
    for (int i = 0; i < kUploads; ++i) {
      bytes[i] = 1 + static_cast<int64_t>(random() % (i % 20 == 19 ? kLargest : 4000));
      ASSERT_TRUE(staging
                      .Upload(streams[random() % 2], memory + i * kLargest, bytes[i],
                              [&](void* to) {
                                std::memset(to, i, bytes[i]);
                                return absl::OkStatus();
                              })
                      .ok());
    }
    std::vector<char> got(kUploads * kLargest);
    ASSERT_TRUE(device.CopyNow(got.data(), memory, kUploads * kLargest).ok());
    for (int i = 0; i < kUploads; ++i) {
      const std::vector<char> expected(bytes[i], static_cast<char>(i));
      ASSERT_EQ(std::memcmp(got.data() + i * kLargest, expected.data(), bytes[i]), 0)
          << "seed " << seed << ", upload " << i;
    }
  }
}

TEST(Staging, PassesOnWhatGoesWrong) {
  CountingDevice device;
  Staging staging(&device);
  char to[8] = {};
  const absl::Status status = staging.Upload(0, to, 8, [](void*) { return absl::NotFoundError("no data"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(staging.Upload(0, to, 0, [](void*) { return absl::NotFoundError("not called"); }).ok());
}

}  // namespace
}  // namespace weft::exec::cuda
