#include "planner/least_state_bytes.h"

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

constexpr char kPrecision[] = "precision { compute: BF16 params: BF16 grads: FP32 master: FP32 moments: FP32 } ";

int64_t Bytes(const std::string& plan, const std::string& recipe = "adamw {}", int64_t parameters = 9600) {
  return LeastStateBytes(Parse<Recipe>(recipe), Parse<Plan>(kPrecision + plan), parameters);
}

TEST(LeastStateBytes, CountsWhatAlwaysStays) {
  EXPECT_EQ(Bytes(""), 9600 * (2 + 4 + 8));
  EXPECT_EQ(Bytes("", "sgd {}"), 9600 * (2 + 4));
  EXPECT_EQ(Bytes("offload { optimizer: true }"), 9600 * 2);
}

TEST(LeastStateBytes, CutsOverAllThatHoldParts) {
  const std::string mesh =
      "mesh { axes { name: 'x' size: 2 } axes { name: 'z' size: 2 } axes { name: 'data' size: 4 } axes { name: 'pipe' "
      "size: 3 } } ";
  EXPECT_EQ(Bytes(mesh), 800 * 14);
  EXPECT_EQ(Bytes(mesh + "zero { stage: 1 }"), 800 * 2 + 200 * 12);
  EXPECT_EQ(Bytes(mesh + "zero { stage: 3 }"), 200 * 14);
  EXPECT_EQ(Bytes(mesh + "zero { stage: 3 group: 2 }"), 400 * 14);
}

TEST(LeastStateBytes, Saturates) { EXPECT_EQ(Bytes("", "adamw {}", INT64_MAX / 2), INT64_MAX); }

}  // namespace
}  // namespace weft::planner
