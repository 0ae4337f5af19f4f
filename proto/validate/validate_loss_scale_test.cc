#include "proto/validate/validate_loss_scale.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validate/validate_test_util.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr char kHalf[] = "precision { compute: FP16 grads: FP32 } ";
constexpr char kSingle[] = "precision { compute: FP32 grads: FP32 } ";

std::string Refusal(const std::string& text) {
  Plan plan = Parse<Plan>(text);
  return std::string(ResolveLossScale(&plan).message());
}

LossScale Resolved(const std::string& text) {
  Plan plan = Parse<Plan>(text);
  const absl::Status status = ResolveLossScale(&plan);
  EXPECT_TRUE(status.ok()) << status;
  return plan.loss_scale();
}

TEST(ValidateLossScale, DynamicByDefaultWhereSomethingIsHalf) {
  for (const char* precision : {kHalf, "precision { compute: FP32 grads: FP16 } "}) {
    for (const char* given : {"", "loss_scale {}"}) {
      const LossScale scale = Resolved(std::string(precision) + given);
      EXPECT_EQ(scale.fixed(), 0);
      EXPECT_EQ(scale.initial(), 65536);
      EXPECT_EQ(scale.growth_interval(), 2000);
    }
  }
  const LossScale scale = Resolved(std::string(kHalf) + "loss_scale { initial: 8 growth_interval: 3 }");
  EXPECT_EQ(scale.initial(), 8);
  EXPECT_EQ(scale.growth_interval(), 3);
}

TEST(ValidateLossScale, NoneByDefaultOtherwise) {
  for (const char* given : {"", "loss_scale {}"}) {
    Plan plan = Parse<Plan>(std::string(kSingle) + given);
    EXPECT_TRUE(ResolveLossScale(&plan).ok());
    EXPECT_FALSE(plan.has_loss_scale());
  }
}

TEST(ValidateLossScale, FixedForAnyType) {
  for (const char* precision : {kHalf, kSingle}) {
    const LossScale scale = Resolved(std::string(precision) + "loss_scale { fixed: 1024 }");
    EXPECT_EQ(scale.fixed(), 1024);
    EXPECT_EQ(scale.initial(), 0);
    EXPECT_EQ(scale.growth_interval(), 0);
  }
}

TEST(ValidateLossScale, Refusals) {
  EXPECT_THAT(Refusal(std::string(kSingle) + "loss_scale { initial: 8 }"),
              HasSubstr("plan.loss_scale.initial needs FP16, because only FP16 uses a dynamic scale"));
  EXPECT_THAT(Refusal(std::string(kSingle) + "loss_scale { growth_interval: 8 }"),
              HasSubstr("plan.precision.compute is fp32"));
  EXPECT_THAT(Refusal(std::string(kHalf) + "loss_scale { fixed: 2 growth_interval: 4 }"),
              HasSubstr("a fixed scale does not grow"));
  EXPECT_THAT(Refusal(std::string(kHalf) + "loss_scale { fixed: 1e30 }"), HasSubstr("2^60"));
  EXPECT_THAT(Refusal(std::string(kHalf) + "loss_scale { initial: 0.5 }"), HasSubstr("nearest: 1"));
  EXPECT_THAT(Refusal(std::string(kHalf) + "loss_scale { fixed: -2 }"), HasSubstr("plan.loss_scale.fixed = -2"));
  EXPECT_THAT(Refusal(std::string(kHalf) + "loss_scale { fixed: nan }"), HasSubstr("plan.loss_scale.fixed = nan"));
  // Post-validation is allowed: an update that is taken back takes its scale with it.
  EXPECT_EQ(Refusal(std::string(kHalf) + "post_validation: true"), "");
  EXPECT_EQ(Refusal(std::string(kSingle) + "loss_scale { fixed: 2 } post_validation: true"), "");
}

}  // namespace
}  // namespace weft
