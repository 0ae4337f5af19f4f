// Checks the frequencies of scaled rotary positions against a second, independent implementation of the published
// formulas.
#include "compiler/models/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int64_t kHead = 16;
constexpr int64_t kPositions = 4096;

absl::StatusOr<RopeShape> Read(const std::string& fields) {
  auto parsed = ParseHfConfig(absl::StrCat("{", fields, "}"));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return ReadRope(HfConfig(*parsed), kHead, kPositions);
}

std::string Error(const std::string& fields) {
  auto rope = Read(fields);
  EXPECT_FALSE(rope.ok()) << fields;
  return std::string(rope.status().message());
}

// The frequencies that docs/kernels.md defines for the attributes.
std::vector<double> Frequencies(const OpAttributes& a) {
  std::vector<double> result;
  for (int64_t i = 0; i < kHead / 2; ++i) {
    const double plain = std::pow(a.base(), -2.0 * i / kHead);
    double keep = 1;
    if (a.factor() != 0) {
      const double u = a.ramp_positions() > 0 ? a.ramp_positions() * plain / (2 * M_PI) : -static_cast<double>(i);
      keep = std::clamp((u - a.ramp_low()) / (a.ramp_high() - a.ramp_low()), 0.0, 1.0);
    }
    result.push_back(a.factor() == 0 ? plain : keep * plain + (1 - keep) * plain / a.factor());
  }
  return result;
}

std::vector<double> Plain(double base) {
  std::vector<double> result;
  for (int64_t i = 0; i < kHead / 2; ++i) result.push_back(1 / std::pow(base, 2.0 * i / kHead));
  return result;
}

void ExpectFrequencies(const RopeShape& rope, const std::vector<double>& expected) {
  const std::vector<double> got = Frequencies(rope.attributes);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14 * expected[i]) << i;
}

TEST(HfRopeTest, PlainAndLinear) {
  auto plain = Read("\"rope_theta\": 5000");
  ASSERT_TRUE(plain.ok()) << plain.status();
  ExpectFrequencies(*plain, Plain(5000));
  EXPECT_EQ(plain->positions, kPositions);
  ExpectFrequencies(*Read(""), Plain(10000));
  auto linear = Read(R"("rope_scaling": {"type": "linear", "factor": 4.0})");
  ASSERT_TRUE(linear.ok()) << linear.status();
  std::vector<double> quarter = Plain(10000);
  for (double& f : quarter) f /= 4;
  ExpectFrequencies(*linear, quarter);
  EXPECT_EQ(linear->positions, 4 * kPositions);
}

TEST(HfRopeTest, Dynamic) {
  auto rope = Read(R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  EXPECT_EQ(rope->attributes.dynamic_positions(), kPositions);
  EXPECT_EQ(rope->attributes.factor(), 2);
  EXPECT_EQ(rope->positions, 2 * kPositions);
}

// Llama 3.1's code keeps wavelengths below 8192 / 4 and divides the frequencies of wavelengths above 8192 / 1 by 8.
// Between these limits the change is smooth.
TEST(HfRopeTest, Llama3) {
  auto rope = Read(R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  std::vector<double> expected = Plain(500000);
  int kept = 0, divided = 0;
  for (double& f : expected) {
    const double wavelength = 2 * M_PI / f;
    if (wavelength < 8192 / 4.0) {
      ++kept;
      continue;
    }
    if (wavelength > 8192 / 1.0) {
      f /= 8;
      ++divided;
      continue;
    }
    const double smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0);
    f = (1 - smooth) * f / 8 + smooth * f;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_LT(kept + divided, 8);
  ExpectFrequencies(*rope, expected);
  EXPECT_EQ(rope->positions, 8 * 8192);
}

TEST(HfRopeTest, Yarn) {
  auto rope = Read(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  const auto dimension = [&](double turns) {
    return kHead * std::log(2048 / (turns * 2 * M_PI)) / (2 * std::log(10000.0));
  };
  const double low = std::max(0.0, std::floor(dimension(32)));
  const double high = std::min<double>(kHead - 1, std::ceil(dimension(1)));
  std::vector<double> expected = Plain(10000);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    expected[i] = expected[i] / 4 * ramp + expected[i] * (1 - ramp);
  }
  ExpectFrequencies(*rope, expected);
  EXPECT_DOUBLE_EQ(rope->attributes.magnitude(), 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(rope->positions, 4 * 2048);
  auto given = Read(R"("rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 1.5})");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->attributes.magnitude(), 1.5);
  auto both = Read(R"("rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 0.5})");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_DOUBLE_EQ(both->attributes.magnitude(), (0.2 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
}

TEST(HfRopeTest, NewFilesSayItInRopeParameters) {
  auto rope = Read(R"("rope_parameters": {"rope_type": "linear", "rope_theta": 700.0, "factor": 2.0})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  EXPECT_EQ(rope->attributes.base(), 700);
  EXPECT_EQ(rope->attributes.factor(), 2);
  EXPECT_THAT(Error(R"("rope_parameters": {}, "rope_scaling": {})"), HasSubstr("give one of the two"));
}

TEST(HfRopeTest, RefusesByName) {
  EXPECT_THAT(Error(R"("rope_scaling": {"rope_type": "longrope", "factor": 2.0})"),
              HasSubstr("rope_scaling.rope_type = 'longrope'; weft does not support this type of scaling; known: "
                        "default"));
  EXPECT_THAT(Error(R"("rope_scaling": {"type": "linaer", "factor": 2.0})"), HasSubstr("nearest: 'linear'"));
  EXPECT_THAT(Error(R"("rope_scaling": {"type": "linear"})"), HasSubstr("rope_scaling.factor = (not set)"));
  EXPECT_THAT(Error(R"("rope_scaling": {"type": "linear", "factor": 0.5})"), HasSubstr("rope_scaling.factor = 0.5"));
  EXPECT_THAT(Error(R"("rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 3})"),
              HasSubstr("rope_scaling.beta_fast is unknown"));
  EXPECT_THAT(Error(R"("rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0})"),
              HasSubstr("it must equal rope_type"));
  EXPECT_THAT(Error(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
      "high_freq_factor": 1.0, "original_max_position_embeddings": 8192})"),
              HasSubstr("below high_freq_factor"));
  EXPECT_THAT(Error(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0})"),
              HasSubstr("original_max_position_embeddings = (not set)"));
  EXPECT_THAT(Error(R"("rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 1, "beta_slow": 2})"),
              HasSubstr("below beta_fast"));
  EXPECT_THAT(Error(R"("rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.5})"),
              HasSubstr("only 1 is supported"));
  EXPECT_THAT(Error(R"("rope_scaling": 3)"), HasSubstr("an object or null"));
}

}  // namespace
}  // namespace weft
