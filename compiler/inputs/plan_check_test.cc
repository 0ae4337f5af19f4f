#include "compiler/inputs/plan_check.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule_text.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// A model with one op per layer.
ModelGraph Layers(int layers) {
  ModelGraph model;
  model.set_name("m");
  for (int layer = 0; layer < layers; ++layer) model.add_ops()->set_layer(layer);
  return model;
}

std::string DefinitionOf(const std::string& name, const PipelineSchedule& schedule) {
  return FormatSchedule({name, schedule, 8, {}});
}

PipelineSchedule Built(const std::string& name) {
  const auto entry = FindSchedule(name);
  EXPECT_TRUE(entry.ok()) << entry.status();
  auto schedule = BuildSchedule(**entry, {.ranks = 4, .microbatches = 8});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

TEST(CheckScheduleName, ADefinitionUnderTheNameOfAnother) {
  PlanSchedule plan;
  plan.set_name("gpipe");
  EXPECT_EQ(Message(CheckScheduleName(plan)), "");
  plan.set_definition(DefinitionOf("mine", Built("gpipe")));
  EXPECT_THAT(Message(CheckScheduleName(plan)),
              AllOf(HasSubstr("plan.schedule: "), HasSubstr("gpipe"), HasSubstr("mine")));
  plan.set_name("mine");
  EXPECT_EQ(Message(CheckScheduleName(plan)), "");
  // CheckScheduleName does not check the definition itself, so it reports no error in it.
  plan.set_definition("no schedule");
  EXPECT_EQ(Message(CheckScheduleName(plan)), "");
}

TEST(CheckFreeze, StaticSchedulesCannotBeFrozen) {
  const std::vector<std::string> driven = MessageDrivenSchedules();
  ASSERT_FALSE(driven.empty());
  PlanSchedule plan;
  plan.set_name("gpipe");
  const PipelineSchedule gpipe = Built("gpipe");
  EXPECT_EQ(Message(CheckFreeze(plan, gpipe)), "");
  plan.set_freeze(true);
  const std::string message = Message(CheckFreeze(plan, gpipe));
  EXPECT_THAT(message, AllOf(HasSubstr("plan.schedule.freeze"), HasSubstr("'gpipe'")));
  for (const std::string& name : driven) {
    EXPECT_THAT(message, HasSubstr(name));
    plan.set_name(name);
    const PipelineSchedule schedule = Built(name);
    EXPECT_EQ(Message(CheckFreeze(plan, schedule)), "");
    // The plan is also accepted after freezing has given the schedule an order.
    EXPECT_EQ(Message(CheckFreeze(plan, gpipe)), "");
    PlanSchedule defined;
    defined.set_name("mine");
    defined.set_freeze(true);
    defined.set_definition(DefinitionOf("mine", schedule));
    EXPECT_EQ(Message(CheckFreeze(defined, schedule)), "");
    EXPECT_EQ(Message(CheckFreeze(defined, gpipe)), "");
    // A plan's own definition of a static schedule stays static, even if it has the name of a message-driven schedule.
    defined.set_name(name);
    defined.set_definition(DefinitionOf("mine", gpipe));
    EXPECT_THAT(Message(CheckFreeze(defined, gpipe)), HasSubstr("plan.schedule.freeze"));
  }
}

class CheckTensorParallelTest : public testing::Test {
 protected:
  // Returns the error for a plan with `fields` and the named schedule, which is static or message-driven.
  std::string Check(const std::string& fields, const std::string& schedule = "gpipe") {
    Plan plan = Parse<Plan>(fields);
    plan.mutable_schedule()->set_name(schedule);
    return Message(CheckTensorParallel(model_, plan, recipe_, Built(schedule)));
  }

  ModelGraph model_ = Layers(4);
  Recipe recipe_ = Parse<Recipe>("microbatch_sequences: 6");
};

TEST_F(CheckTensorParallelTest, WithoutAnyNothingIsAsked) {
  recipe_.set_microbatch_sequences(1);
  for (const std::string& name : MessageDrivenSchedules()) {
    EXPECT_EQ(Check("mesh { axes { name: 'data' size: 4 } axes { name: 'pipe' size: 4 } }", name), "");
    // With a single replica ZeRO cuts nothing.
    EXPECT_EQ(Check("mesh { axes { name: 'data' size: 1 } } zero { stage: 3 }", name), "");
  }
}

TEST_F(CheckTensorParallelTest, AMicrobatchIsSharedEqually) {
  for (int z = 1; z <= 9; ++z) {
    const std::string mesh = absl::StrCat("mesh { axes { name: 'z' size: ", z, " } }");
    const std::string message = Check(mesh);
    EXPECT_EQ(message.empty(), 6 % z == 0) << message;
    if (message.empty()) continue;
    EXPECT_THAT(message, HasSubstr("recipe.microbatch_sequences = 6"));
    // The values that the message calls valid are valid.
    const std::string valid = message.substr(message.rfind(": ") + 2);
    for (const absl::string_view text : absl::StrSplit(valid, ", ")) {
      int64_t sequences = 0;
      ASSERT_TRUE(absl::SimpleAtoi(text, &sequences)) << message;
      EXPECT_GT(sequences, 0) << message;
      const Recipe given = recipe_;
      recipe_.set_microbatch_sequences(sequences);
      EXPECT_EQ(Check(mesh), "") << message;
      recipe_ = given;
    }
  }
}

TEST_F(CheckTensorParallelTest, ConvolutionsNeedWholeImages) {
  const std::string mesh = "mesh { axes { name: 'x' size: 2 } } ";
  EXPECT_EQ(Check(mesh + "sequence_parallel: true"), "");
  model_.set_image_size(32);
  EXPECT_THAT(Check(mesh + "sequence_parallel: true"), AllOf(HasSubstr("plan.sequence_parallel"), HasSubstr("'m'")));
  EXPECT_EQ(Check(mesh), "");
  EXPECT_EQ(Check("mesh { axes { name: 'x' size: 1 } } sequence_parallel: true"), "");
}

TEST_F(CheckTensorParallelTest, RanksThatChooseCannotMeetInCollectives) {
  const std::string driven = MessageDrivenSchedules().front();
  const std::string data = "mesh { axes { name: 'data' size: 2 } } ";
  for (const char* axis : {"x", "y", "z"}) {
    const std::string mesh = absl::StrCat("mesh { axes { name: '", axis, "' size: 2 } }");
    EXPECT_THAT(Check(mesh, driven), AllOf(HasSubstr("message-driven"), HasSubstr("x, y and z must have size 1")));
    EXPECT_EQ(Check(mesh), "");
  }
  // ZeRO 1 has collectives only between iterations.
  EXPECT_EQ(Check(data + "zero { stage: 1 }", driven), "");
  for (const char* zero : {"zero { stage: 2 }", "zero { stage: 3 }", "zero { stage: 3 reshard: NEVER }"}) {
    EXPECT_THAT(Check(data + zero, driven), AllOf(HasSubstr("message-driven"), HasSubstr("must be 0 or 1")));
    EXPECT_EQ(Check(absl::StrCat(data, zero, " schedule { freeze: true }"), driven), "");
  }
}

// The numbers that the message calls valid are accepted, and one more pipeline rank is not.
TEST(CheckStages, AsManyAsThereAreLayersAtMost) {
  for (int layers = 1; layers <= 12; ++layers) {
    const ModelGraph model = Layers(layers);
    for (int ranks = 1; ranks <= 14; ++ranks) {
      for (int per_rank = 1; per_rank <= 14; ++per_rank) {
        const std::string message = Message(CheckStages(model, ranks, ranks * per_rank));
        EXPECT_EQ(message.empty(), ranks * per_rank <= layers);
        if (message.empty()) continue;
        SCOPED_TRACE(message);
        EXPECT_THAT(message, HasSubstr(absl::StrCat("the pipe axis of plan.mesh (pp) = ", ranks)));
        const std::string valid = message.substr(message.find("nearest valid: ") + 15);
        EXPECT_NE(valid, "");
        int64_t value = 0;
        if (const size_t at = valid.find("pp = "); at != std::string::npos) {
          ASSERT_TRUE(absl::SimpleAtoi(valid.substr(at + 5, valid.find(' ', at + 5) - at - 5), &value));
          EXPECT_TRUE(CheckStages(model, value, value * per_rank).ok());
          EXPECT_FALSE(CheckStages(model, value + 1, (value + 1) * per_rank).ok());
        }
        if (const size_t at = valid.find("at most "); at != std::string::npos) {
          ASSERT_TRUE(absl::SimpleAtoi(valid.substr(at + 8, valid.find(' ', at + 8) - at - 8), &value));
          const bool in_all = valid.find("in all") != std::string::npos;
          EXPECT_TRUE(CheckStages(model, in_all ? 1 : ranks, in_all ? value : value * ranks).ok());
          EXPECT_EQ(valid.find(value == 1 && !in_all ? " stage per" : " stages ") != std::string::npos, true);
        }
      }
    }
  }
}

TEST(CheckLayers, TheFirstThatTheModelDoesNotHaveIsNamed) {
  const ModelGraph model = Layers(5);
  const auto recompute = [&](const std::string& fields) {
    return Message(CheckRecomputeLayers(model, Parse<Recompute>(fields)));
  };
  EXPECT_EQ(recompute("mode: LAYERS layers: [0, 4]"), "");
  EXPECT_EQ(recompute("mode: LAYERS layers: [0, 5, 9]"),
            "plan.recompute.layers[1] = 5 must be 0 to 4, the layers of model 'm'; nearest: 4");
  EXPECT_THAT(recompute("mode: LAYERS layers: -2147483648"), HasSubstr("nearest: 0"));
  // Other modes ignore the list.
  EXPECT_EQ(recompute("mode: FULL layers: 9"), "");
  EXPECT_TRUE(CheckRecomputeLayers(ModelGraph(), Parse<Recompute>("mode: LAYERS layers: 9")).ok());
  const auto kept = [&](const std::string& fields) { return Message(CheckKeptLayers(model, Parse<Zero>(fields))); };
  EXPECT_EQ(kept("kept_layers: [1, 4]"), "");
  EXPECT_EQ(kept("kept_layers: [1, 4, 2147483647]"),
            "plan.zero.kept_layers[2] = 2147483647 must be 0 to 4, the layers of model 'm'; nearest: 4");
  EXPECT_THAT(kept("kept_layers: -1"), HasSubstr("nearest: 0"));
}

TEST(WithTransferOrder, DeadlocksOfACommonOrderSayWhichFieldItIs) {
  const absl::Status deadlock = absl::FailedPreconditionError("[P13.deadlock] a cycle");
  const Plan together = Parse<Plan>("transfer_order: TOGETHER");
  const absl::Status said = WithTransferOrder(together, deadlock);
  EXPECT_EQ(said.code(), deadlock.code());
  EXPECT_THAT(std::string(said.message()), AllOf(HasSubstr("plan.transfer_order = TOGETHER"),
                                                 HasSubstr("transfer_placement"), HasSubstr("[P13.deadlock] a cycle")));
  // Plans whose transfer order does not explain the deadlock keep the message.
  EXPECT_EQ(WithTransferOrder(Plan(), deadlock), deadlock);
  EXPECT_EQ(WithTransferOrder(Parse<Plan>("transfer_order: TOGETHER transfer_placement: DEFERRED"), deadlock),
            deadlock);
}

}  // namespace
}  // namespace weft
