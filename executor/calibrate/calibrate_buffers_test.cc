#include "executor/calibrate/calibrate_buffers.h"

#include <cstring>
#include <set>
#include <vector>

#include "executor/interface/device.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

constexpr int64_t kVocabulary = 1000;

template <typename T>
std::vector<T> Filled(CalibrationMemory& memory, DType dtype, int64_t bytes, int64_t vocabulary = kVocabulary) {
  std::vector<T> values(bytes / sizeof(T));
  std::memset(values.data(), 0xff, bytes);
  CaseTensor tensor;
  tensor.dtype = dtype;
  EXPECT_TRUE(memory.Fill(tensor, vocabulary, reinterpret_cast<std::byte*>(values.data()), bytes).ok());
  EXPECT_TRUE(memory.Await().ok());
  return values;
}

// The pattern has at most 16 MiB. Larger tensors repeat it to the end.
constexpr int64_t kSizes[] = {256, 1 << 16, (40 << 20) + 256};

TEST(CalibrationMemory, NumbersArePositiveAndDiffer) {
  const auto device = MakeHostDevice();
  CalibrationMemory memory(device.get());
  for (const int64_t bytes : kSizes) {
    SCOPED_TRACE(bytes);
    int64_t outside = 0;
    double sum = 0;
    const std::vector<float> singles = Filled<float>(memory, FP32, bytes);
    for (const float x : singles) {
      outside += !(x >= 0.1f && x < 1);
      sum += x;
    }
    EXPECT_EQ(outside, 0);
    EXPECT_NEAR(sum / static_cast<double>(singles.size()), 0.55, bytes > 1000 ? 0.02 : 0.2);
    // BF16 values are in [0.125, 0.25), FP16 values in [0.5, 1).
    for (const uint16_t x : Filled<uint16_t>(memory, BF16, bytes)) outside += !(x >= 0x3e00 && x < 0x3e80);
    for (const uint16_t x : Filled<uint16_t>(memory, FP16, bytes)) outside += !(x >= 0x3800 && x < 0x3c00);
    for (const double x : Filled<double>(memory, FP64, bytes)) outside += !(x >= 0.1 && x < 1);
    for (const uint8_t x : Filled<uint8_t>(memory, UINT8, bytes)) outside += x > 1;
    EXPECT_EQ(outside, 0);
    EXPECT_FALSE(Filled<float>(memory, FP32, bytes) == singles) << "two tensors are alike";
  }
}

// Each case has its own vocabulary.
TEST(CalibrationMemory, TokensAreInTheVocabulary) {
  const auto device = MakeHostDevice();
  CalibrationMemory memory(device.get());
  for (const int64_t vocabulary : {50000, 7, 50000}) {
    int64_t outside = 0;
    std::set<int32_t> seen;
    for (const int32_t token : Filled<int32_t>(memory, INT32, 1 << 20, vocabulary)) {
      outside += token < 0 || token >= vocabulary;
      seen.insert(token);
    }
    EXPECT_EQ(outside, 0);
    EXPECT_GT(static_cast<int64_t>(seen.size()), vocabulary / 2);
  }
}

TEST(CalibrationMemory, ExactAccumulatorsAreZero) {
  const auto device = MakeHostDevice();
  CalibrationMemory memory(device.get());
  for (const int64_t bytes : {int64_t{768}, int64_t{20} << 20}) {
    for (const uint64_t limb : Filled<uint64_t>(memory, EXACT192, bytes)) ASSERT_EQ(limb, 0u);
  }
}

TEST(CalibrationMemory, PatternsCountAsTaken) {
  const auto device = MakeHostDevice();
  CalibrationMemory memory(device.get());
  EXPECT_EQ(memory.bytes(), 0);
  Filled<float>(memory, FP32, 1 << 20);
  const int64_t one = memory.bytes();
  EXPECT_GE(one, 1 << 20);
  // This fits into the memory that is already allocated.
  Filled<float>(memory, FP32, 1 << 19);
  EXPECT_EQ(memory.bytes(), one);
  ASSERT_TRUE(memory.Take(512).ok());
  EXPECT_GT(memory.bytes(), one);
}

}  // namespace
}  // namespace weft::exec
