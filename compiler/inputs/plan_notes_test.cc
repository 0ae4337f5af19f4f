#include "compiler/inputs/plan_notes.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two ranks with 1000 and 1200 elements of weights on the host. The weights' copy on the device does not count.
std::vector<std::string> NotesOf(const std::string& text, const std::vector<int32_t>& layers = {},
                                 const Recipe& recipe = {}) {
  Plan plan;
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan)) << text;
  for (int64_t elements : {1000, 1200}) {
    Template& t = *program.add_templates();
    for (const Place place : {HOST, DEVICE}) {
      Buffer& buffer = *t.add_buffers();
      buffer.set_role(MASTER);
      buffer.set_place(place);
      buffer.set_dtype(FP32);
      buffer.set_bytes(4 * elements);
    }
  }
  std::vector<std::string> notes;
  AddPlanNotes(recipe, plan, program, Device(), layers, &notes);
  return notes;
}

TEST(PlanNotes, SinglePrecisionOfDevicesWithHalf) {
  Device device;
  device.set_name("V100");
  const auto peak = [&](DType dtype, double flops) {
    device.add_peaks()->set_dtype(dtype);
    device.mutable_peaks()->rbegin()->set_flops_per_second(flops);
  };
  Plan plan;
  Program program;
  program.mutable_precision()->set_compute(FP32);
  const auto notes = [&] {
    std::vector<std::string> all;
    AddPlanNotes(Recipe(), plan, program, device, {}, &all);
    return all;
  };
  peak(FP32, 15.7e12);
  EXPECT_THAT(notes(), IsEmpty());
  peak(FP16, 125e12);
  EXPECT_THAT(
      notes(),
      ElementsAre("plan.precision.compute is not set; weft takes FP32, because 'V100' is no faster with BF16; FP16 has "
                  "8.0 times the peak of FP32 (to use it, set precision.compute=FP16, with a loss_scale)"));
  plan.mutable_precision()->set_compute(FP32);
  EXPECT_THAT(notes(), IsEmpty());
  plan.clear_precision();
  program.mutable_precision()->set_compute(BF16);
  EXPECT_THAT(notes(), IsEmpty());
}

TEST(PlanNotes, ZeroOverOneReplica) {
  EXPECT_THAT(NotesOf("zero { stage: 3 } mesh { axes { name: 'x' size: 2 } }"),
              ElementsAre("plan.zero.stage = 3 cuts nothing: mesh axis data (dp) has 1 rank; it needs at least 2"));
  EXPECT_THAT(NotesOf("zero { stage: 3 } mesh { axes { name: 'data' size: 2 } }"), IsEmpty());
  EXPECT_THAT(NotesOf("mesh { axes { name: 'data' size: 1 } }"), IsEmpty());
}

TEST(PlanNotes, RecomputeBeyondEveryStage) {
  // The last layer of the second stage is the loss.
  EXPECT_THAT(NotesOf("recompute { mode: INTERVAL interval: 4 }", {3, 4}),
              ElementsAre(AllOf(HasSubstr("plan.recompute.interval = 4 has the effect of 3"), HasSubstr("1 to 3"))));
  EXPECT_THAT(NotesOf("recompute { mode: EVERY every: 9 }", {1, 2}),
              ElementsAre(AllOf(HasSubstr("plan.recompute.every = 9 has the effect of 1"), HasSubstr("1 to 1"))));
  EXPECT_THAT(NotesOf("recompute { mode: INTERVAL interval: 3 }", {3, 4}), IsEmpty());
  EXPECT_THAT(NotesOf("recompute { mode: EVERY every: 4 }", {4, 2}), IsEmpty());
  EXPECT_THAT(NotesOf("recompute { mode: EVERY every: 4 }"), IsEmpty());
  EXPECT_THAT(NotesOf("recompute { mode: FULL }", {3, 3}), IsEmpty());
}

TEST(PlanNotes, BucketsThatHoldAll) {
  EXPECT_THAT(NotesOf("offload { optimizer: true }"),
              ElementsAre(AllOf(HasSubstr("bucket_elements = 16777216 (the default) holds all states of a rank"),
                                HasSubstr("1200 elements"), HasSubstr("at most 300"))));
  EXPECT_THAT(NotesOf("offload { optimizer: true bucket_elements: 1200 }"),
              ElementsAre(HasSubstr("bucket_elements = 1200 holds all")));
  EXPECT_THAT(NotesOf("offload { optimizer: true bucket_elements: 1199 }"), IsEmpty());
  EXPECT_THAT(NotesOf("offload { activation_layers: 2 }"), IsEmpty());
}

TEST(PlanNotes, MoreLayersToOffloadThanAnyStageHas) {
  EXPECT_THAT(NotesOf("offload { activation_layers: 99 }", {3, 4}),
              ElementsAre("plan.offload.activation_layers = 99 has the effect of 4: the longest stage has 4 layers"));
  EXPECT_THAT(NotesOf("offload { activation_layers: 2 }", {1}), ElementsAre(HasSubstr("has 1 layer")));
  EXPECT_THAT(NotesOf("offload { activation_layers: 4 }", {3, 4}), IsEmpty());
}

TEST(PlanNotes, AWarmUpLongerThanTheTraining) {
  Recipe recipe;
  recipe.mutable_lr()->set_warmup_steps(21);
  // If the number of iterations is not given, no warm-up is too long.
  EXPECT_THAT(NotesOf("", {}, recipe), IsEmpty());
  recipe.set_steps(21);
  EXPECT_THAT(NotesOf("", {}, recipe), IsEmpty());
  recipe.set_steps(20);
  EXPECT_THAT(NotesOf("", {}, recipe), ElementsAre("recipe.lr.warmup_steps = 21 is more than recipe.steps = 20, so the "
                                                   "learning rate never reaches recipe.lr.peak"));
}

}  // namespace
}  // namespace weft
