#include "proto/io/json.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/io/json_value.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/report.pb.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(MessageToJson, EveryFieldIsPresent) {
  RunReport report;
  report.set_program("a \"b\"\n\x01é");
  report.set_planned_bytes(std::numeric_limits<int64_t>::min());
  RunStep* step = report.add_steps();
  step->set_loss(0.1);
  step->set_eval_loss(3);
  report.add_steps()->set_seconds(1e-300);
  EXPECT_EQ(*MessageToJson(report), R"({
  "schema_version": 0,
  "program": "a \"b\"\n\u0001é",
  "backend": "",
  "transport": "",
  "threads_per_rank": 0,
  "steps": [
    {
      "step": 0,
      "loss": 0.1,
      "learning_rate": 0,
      "grad_norm": 0,
      "tokens": 0,
      "seconds": 0,
      "eval_loss": 3,
      "loss_scale": null,
      "skipped": false
    },
    {
      "step": 0,
      "loss": 0,
      "learning_rate": 0,
      "grad_norm": 0,
      "tokens": 0,
      "seconds": 1e-300,
      "eval_loss": null,
      "loss_scale": null,
      "skipped": false
    }
  ],
  "tokens_per_second": 0,
  "planned_bytes": -9223372036854775808,
  "tuning_digest": 0,
  "allocated_bytes": 0
}
)");
}

TEST(MessageToJson, ReadsBack) {
  Plan plan;
  plan.mutable_mesh()->add_axes()->set_name("pipe");
  plan.mutable_mesh()->add_axes()->set_size(std::numeric_limits<int64_t>::max());
  plan.mutable_recompute()->set_mode(Recompute::LAYERS);
  plan.mutable_recompute()->add_layers(3);
  plan.set_accumulation(EXACT);
  plan.set_step_barrier(true);
  const auto json = MessageToJson(plan);
  ASSERT_TRUE(json.ok());
  EXPECT_THAT(*json, HasSubstr("\"mode\": \"LAYERS\""));
  Plan read;
  const absl::Status status = ParseMessage(*json, "j", &read);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(read.SerializeAsString(), plan.SerializeAsString());
  Recipe recipe;
  recipe.mutable_sgd()->set_momentum(0.5);
  recipe.set_seed(~uint64_t{0});
  Recipe recipe_read;
  ASSERT_TRUE(ParseMessage(*MessageToJson(recipe), "j", &recipe_read).ok());
  EXPECT_EQ(recipe_read.SerializeAsString(), recipe.SerializeAsString());
}

TEST(MessageToJson, RefusesWhatJsonCannotSay) {
  SimulationReport report;
  report.set_mfu(std::nan(""));
  EXPECT_THAT(std::string(MessageToJson(report).status().message()), HasSubstr("simulation_report.mfu = nan"));
  report.set_mfu(0);
  report.add_per_rank()->add_idle_causes()->set_seconds(-std::numeric_limits<double>::infinity());
  EXPECT_THAT(std::string(MessageToJson(report).status().message()),
              HasSubstr("simulation_report.per_rank[0].idle_causes[0].seconds = -inf"));
  report.clear_per_rank();
  report.set_runtime("\xff");
  EXPECT_THAT(std::string(MessageToJson(report).status().message()), HasSubstr("simulation_report.runtime"));
  Plan plan;
  plan.set_accumulation(static_cast<AccumulationMode>(9));
  EXPECT_THAT(std::string(MessageToJson(plan).status().message()), HasSubstr("plan.accumulation = 9"));
}

TEST(JsonNumber, ReadsBackToTheSameBits) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value;
    static_assert(sizeof(value) == sizeof(bits));
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const auto json = ParseJson(JsonNumber(value), "n");
    ASSERT_TRUE(json.ok()) << json.status();
    const std::optional<double> back = json->Double();
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(std::memcmp(&*back, &value, sizeof(value)), 0) << JsonNumber(value);
  }
}

TEST(ParseJson, KeepsPositionsAndDigits) {
  const auto json =
      ParseJson(" {\n  \"a\": [1, -9223372036854775808, 2.50e1, 1e-9999],\n \"\\u00e9\\ud83d\\ude00\": null}", "j");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->column, 2);
  const JsonValue* a = json->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->line, 2);
  EXPECT_EQ(a->elements[1].Int64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(a->elements[1].Uint64(), std::nullopt);
  EXPECT_EQ(a->elements[2].Int64(), 25);
  EXPECT_EQ(a->elements[2].column, 34);
  EXPECT_EQ(a->elements[3].Double(), std::nullopt);
  EXPECT_NE(json->Find("é😀"), nullptr);
  EXPECT_EQ(json->Find("b"), nullptr);
  EXPECT_EQ(ParseJson("1" + std::string(400, '0') + "e-5", "j")->Double(), std::nullopt);
  EXPECT_EQ(ParseJson("0." + std::string(400, '0') + "1", "j")->Double(), std::nullopt);
}

}  // namespace
}  // namespace weft
