// Compares sums with the bits of executor/numerics/sum_parts.h, for every type, number of parts and place in memory.
#include "executor/backends/cuda/kernels/sum_parts.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"
#include "executor/numerics/exact192.h"
#include "executor/numerics/sum_parts.h"

namespace weft::exec::cuda {
namespace {

constexpr Type kFloats[] = {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16};
constexpr Type kAll[] = {Type::kFp64, Type::kFp32, Type::kBf16, Type::kFp16, Type::kExact192};

int64_t BytesOf(Type type) {
  return type == Type::kExact192 ? 24 : type == Type::kFp64 ? 8 : type == Type::kFp32 ? 4 : 2;
}

// Fills an array with numbers of many magnitudes, including zeros and infinities.
void Fill(Type type, std::mt19937_64& random, int64_t n, char* to) {
  for (int64_t i = 0; i < n; ++i) {
    double x = std::ldexp(std::uniform_real_distribution<double>(-2, 2)(random), static_cast<int>(random() % 40) - 26);
    if (random() % 50 == 0) x = random() % 2 == 0 ? INFINITY : 0.0;
    if (type == Type::kExact192) {
      Exact192 sum = {};
      ExactAccumulate(absl::MakeConstSpan(&x, 1), absl::MakeSpan(&sum, 1));
      std::memcpy(to + i * 24, &sum, 24);
    } else {
      weft::exec::AddTo(FP64, &x, 1, false, static_cast<DType>(type), to + i * BytesOf(type));
    }
  }
}

// Expects the same numbers. All NaNs count as equal.
void ExpectSame(Type type, int64_t n, const char* expected, const char* got, const std::string& what) {
  const int64_t bytes = BytesOf(type);
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(expected + i * bytes, got + i * bytes, bytes) == 0) continue;
    double a = 0, b = 0;
    if (type != Type::kExact192) {
      weft::exec::AddTo(static_cast<DType>(type), expected + i * bytes, 1, false, FP64, &a);
      weft::exec::AddTo(static_cast<DType>(type), got + i * bytes, 1, false, FP64, &b);
      if (std::isnan(a) && std::isnan(b)) continue;
    }
    FAIL() << what << ": element " << i << " is " << b << ", on the host " << a;
  }
}

TEST(SumPartsTest, BitsOfTheHost) {
  std::mt19937_64 random(7);
  for (const Type type : kAll) {
    for (const int count : {1, 2, 3, 8, 9, 17}) {
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{64}, int64_t{2500}}) {
        // Parts begin at any element, not only at multiples of 16 bytes. The destination may be one of them.
        const int64_t shift = random() % 2 == 0 ? 0 : 1 + static_cast<int64_t>(random() % 3);
        const int in_place = static_cast<int>(random() % (count + 1)) - 1;
        const int64_t bytes = BytesOf(type) * (n + shift);
        std::vector<std::vector<double>> memory(count + 1, std::vector<double>(bytes / 8 + 2));
        std::vector<const void*> parts;
        for (int p = 0; p < count; ++p) {
          char* data = reinterpret_cast<char*>(memory[p].data()) + shift * BytesOf(type);
          Fill(type, random, n, data);
          parts.push_back(data);
        }
        std::vector<double> expected(bytes / 8 + 2);
        weft::exec::SumParts(static_cast<DType>(type), n, parts, expected.data());
        char* to = in_place >= 0 ? static_cast<char*>(const_cast<void*>(parts[in_place]))
                                 : reinterpret_cast<char*>(memory[count].data()) + shift * BytesOf(type);
        ASSERT_EQ(Launch(SumParts{type, n, parts.data(), count, to}, nullptr), nullptr);
        ExpectSame(type, n, reinterpret_cast<const char*>(expected.data()), to,
                   "type " + std::to_string(static_cast<int>(type)) + ", " + std::to_string(count) + " parts of " +
                       std::to_string(n));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(SumPartsTest, OrderIsThatOfTheParts) {
  const float a = 1, b = 0x1p30f, c = -0x1p30f;
  const void* parts[] = {&a, &b, &c};
  float sum = -1;
  ASSERT_EQ(Launch(SumParts{Type::kFp32, 1, parts, 3, &sum}, nullptr), nullptr);
  EXPECT_EQ(sum, 0);
  const void* other[] = {&b, &c, &a};
  ASSERT_EQ(Launch(SumParts{Type::kFp32, 1, other, 3, &sum}, nullptr), nullptr);
  EXPECT_EQ(sum, 1);
}

TEST(SumPartsTest, TooManyPartsAreRefused) {
  float x = 1;
  const std::vector<const void*> parts(kMaxParts + 1, &x);
  float sum = 0;
  EXPECT_NE(Launch(SumParts{Type::kFp32, 1, parts.data(), kMaxParts + 1, &sum}, nullptr), nullptr);
  EXPECT_NE(Launch(SumParts{Type::kFp32, 1, parts.data(), 0, &sum}, nullptr), nullptr);
  ASSERT_EQ(Launch(SumParts{Type::kFp32, 1, parts.data(), kMaxParts, &sum}, nullptr), nullptr);
  EXPECT_EQ(sum, kMaxParts);
}

void CheckAddTo(Type from, Type to, std::mt19937_64& random) {
  for (const bool accumulate : {false, true}) {
    for (const int64_t n : {int64_t{5}, int64_t{1000}}) {
      const int64_t shift = random() % 2;
      std::vector<double> values(n * 3 + 4), old(n * 3 + 4);
      char* x = reinterpret_cast<char*>(values.data()) + shift * BytesOf(from);
      char* y = reinterpret_cast<char*>(old.data()) + shift * BytesOf(to);
      Fill(from, random, n, x);
      Fill(to, random, n, y);
      std::vector<double> expected(n * 3 + 4);
      std::memcpy(expected.data(), y, n * BytesOf(to));
      weft::exec::AddTo(static_cast<DType>(from), x, n, accumulate, static_cast<DType>(to), expected.data());
      ASSERT_EQ(Launch(AddValues{{x, from}, n, accumulate, {y, to}}, nullptr), nullptr);
      ExpectSame(to, n, reinterpret_cast<const char*>(expected.data()), y,
                 "from " + std::to_string(static_cast<int>(from)) + " to " + std::to_string(static_cast<int>(to)) +
                     (accumulate ? ", accumulated" : ""));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(AddToTest, BitsOfTheHost) {
  std::mt19937_64 random(8);
  for (const Type from : kFloats) {
    for (const Type to : kAll) CheckAddTo(from, to, random);
  }
  CheckAddTo(Type::kExact192, Type::kExact192, random);
}

}  // namespace
}  // namespace weft::exec::cuda
