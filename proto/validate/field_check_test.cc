// Tests what each check accepts, up to its bounds, and the one-line error for everything else.
#include "proto/validate/field_check.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

std::string Said(const absl::Status& status) {
  if (status.ok()) return "";
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FieldCheckTest, Integers) {
  EXPECT_EQ(Said(CheckAtLeast("a.b", 2, 2)), "");
  EXPECT_EQ(Said(CheckAtLeast("a.b", 1, 2)), "a.b = 1 must be at least 2");
  EXPECT_EQ(Said(CheckWithin("a.b", 1, 1, 3)), "");
  EXPECT_EQ(Said(CheckWithin("a.b", 3, 1, 3)), "");
  EXPECT_EQ(Said(CheckWithin("a.b", 0, 1, 3)), "a.b = 0 must be at least 1");
  EXPECT_EQ(Said(CheckWithin("a.b", 4, 1, 3)), "a.b = 4 must be at most 3");
}

// NaN lies in no range.
TEST(FieldCheckTest, Numbers) {
  for (const double good : {0.0, 1e-300, 1e308}) EXPECT_EQ(Said(CheckNotNegative("x", good)), "");
  for (const double bad : {-0.0, -1e-300, kInfinity, kNan}) {
    EXPECT_NE(Said(CheckNotNegative("x", bad)).find("must be finite and at least 0"), std::string::npos) << bad;
  }
  EXPECT_EQ(Said(CheckPositive("x", 1e-300)), "");
  for (const double bad : {0.0, -1.0, kInfinity, kNan}) {
    EXPECT_NE(Said(CheckPositive("x", bad)).find("must be finite and greater than 0"), std::string::npos) << bad;
  }
  for (const double good : {-1e308, 0.0}) EXPECT_EQ(Said(CheckFinite("x", good)), "");
  for (const double bad : {-kInfinity, kNan}) EXPECT_NE(Said(CheckFinite("x", bad)), "") << bad;
  for (const double good : {0.0, 1e30}) EXPECT_EQ(Said(CheckDeviation("x", good)), "");
  for (const double bad : {-0.0, -0.5, 1.1e30, kNan}) {
    EXPECT_NE(Said(CheckDeviation("x", bad)).find("must be from 0 to 1e30"), std::string::npos) << bad;
  }
  for (const double good : {0.0, 0.999}) EXPECT_EQ(Said(CheckProbability("x", good)), "");
  for (const double bad : {-0.0, -0.1, 1.0, kNan}) {
    EXPECT_NE(Said(CheckProbability("x", bad)).find("must be at least 0 and less than 1"), std::string::npos) << bad;
  }
  EXPECT_EQ(Said(CheckProbability("recipe.dropout", 1.5)), "recipe.dropout = 1.5 must be at least 0 and less than 1");
}

TEST(FieldCheckTest, Words) {
  EXPECT_EQ(Said(CheckNotEmpty("name", "x")), "");
  EXPECT_EQ(Said(CheckNotEmpty("name", "")), "name is missing or empty; it is required");
  EXPECT_EQ(Said(CheckName("name", "two words, é")), "");
  EXPECT_EQ(Said(CheckName("name", "")), "name is missing or empty; it is required");
  EXPECT_EQ(Said(CheckName("name", "a\nb")), "name = 'a\\x0ab' must be one line without control characters");
  const std::vector<std::string> known = {"cosine", "linear", "constant"};
  for (const std::string& name : known) EXPECT_EQ(Said(CheckOneOf("decay", name, known)), "");
  const std::string said = Said(CheckOneOf("recipe.lr.decay", "cosin", known));
  EXPECT_EQ(said.rfind("recipe.lr.decay = 'cosin' is unknown", 0), 0u) << said;
  EXPECT_NE(said.find("cosine"), std::string::npos) << said;
  // An empty name is not known, though it is a prefix of every name.
  EXPECT_NE(Said(CheckOneOf("decay", "", known)), "");
}

TEST(FieldCheckTest, ProductsDoNotOverflow) {
  int64_t product = -1;
  EXPECT_EQ(Said(CheckProduct("n", 0, std::numeric_limits<int64_t>::max(), &product)), "");
  EXPECT_EQ(product, 0);
  EXPECT_EQ(Said(CheckProduct("n", std::numeric_limits<int64_t>::max(), 0, &product)), "");
  EXPECT_EQ(product, 0);
  EXPECT_EQ(Said(CheckProduct("n", int64_t{1} << 31, int64_t{1} << 31, &product)), "");
  EXPECT_EQ(product, int64_t{1} << 62);
  EXPECT_EQ(Said(CheckProduct("n", (int64_t{1} << 31) + 1, int64_t{1} << 31, &product)),
            "n = 2147483649 * 2147483648 is too large; at most 2^62");
  // A refused product leaves the variable unchanged.
  EXPECT_EQ(product, int64_t{1} << 62);
}

}  // namespace
}  // namespace weft
