#include <cstring>
#include <string>

#include "executor/interface/device.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(HostDevice, MemoryIsZeroedAlignedAndCopied) {
  const auto device = MakeHostDevice();
  for (const Place place : {DEVICE, HOST}) {
    char* memory = static_cast<char*>(device->Allocate(place, 10000).value());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
    EXPECT_EQ(std::string(memory, 10000), std::string(10000, '\0'));
    ASSERT_TRUE(device->CopyNow(memory, "abc", 3).ok());
    ASSERT_TRUE(device->Copy(0, memory + 10, memory, 3).ok());
    EXPECT_EQ(std::string(memory + 10, 4), std::string("abc\0", 4));
    ASSERT_TRUE(device->Clear(0, memory, 2).ok());
    EXPECT_EQ(std::string(memory, 3), std::string("\0\0c", 3));
  }
  EXPECT_EQ(device->Allocate(DEVICE, int64_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device->Allocate(DEVICE, -1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(HostDevice, SumsInOrderAndRefusesWhatHasNoSum) {
  const auto device = MakeHostDevice();
  const float a[2] = {1e8f, 1}, b[2] = {1, 2}, c[2] = {-1e8f, 3};
  float sum[2];
  const void* parts[] = {a, b, c};
  ASSERT_TRUE(device->Sum(0, FP32, 2, parts, sum).ok());
  // (1e8 + 1) - 1e8 is 0 in fp32.
  EXPECT_EQ(sum[0], 0);
  EXPECT_EQ(sum[1], 6);
  EXPECT_FALSE(device->Sum(0, INT32, 2, parts, sum).ok());
  ASSERT_TRUE(device->AddTo(0, FP32, b, 2, true, FP32, sum).ok());
  EXPECT_EQ(sum[1], 8);
  EXPECT_FALSE(device->AddTo(0, INT32, b, 2, true, FP32, sum).ok());
}

TEST(HostDevice, EventsAreOverAndInOrder) {
  const auto device = MakeHostDevice();
  const int stream = device->NewStream(ComputeDevice::Priority::kNormal).value();
  const int first = device->NewEvent(true).value(), second = device->NewEvent(true).value();
  EXPECT_NE(first, second);
  EXPECT_TRUE(device->Finished(first).value());
  ASSERT_TRUE(device->Record(first, stream).ok());
  ASSERT_TRUE(device->Record(second, stream).ok());
  ASSERT_TRUE(device->Synchronize(second).ok());
  EXPECT_LE(device->TimeOf(first).value(), device->TimeOf(second).value());
}

}  // namespace
}  // namespace weft::exec
