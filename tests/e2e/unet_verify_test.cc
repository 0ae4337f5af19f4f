// The verifier's checks of programs for images: each test breaks one rule of a kernel.
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tiny_unet.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class UnetVerifyTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto compiled = CompileUnet({.pipe = 2, .plan_fields = "partition { layers_per_stage: [6, 6] }"});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    program_ = new Program(*std::move(compiled));
    ASSERT_TRUE(VerifyProgram(*program_).ok()) << VerifyProgram(*program_);
  }
  static void TearDownTestSuite() { delete program_; }

  // Applies `change` to the first step with this kernel and returns the verifier's message.
  std::string Refusal(Kernel kernel, const std::function<void(Step*, Segment*)>& change) {
    Program program = *program_;
    for (Segment& segment : *program.mutable_segments()) {
      for (Step& step : *segment.mutable_steps()) {
        if (step.kernel() != kernel) continue;
        change(&step, &segment);
        return std::string(VerifyProgram(program).message());
      }
    }
    ADD_FAILURE() << "no step " << Kernel_Name(kernel);
    return "";
  }
  std::string AttributeRefusal(Kernel kernel, const std::function<void(StepAttributes*)>& change) {
    return Refusal(kernel, [&](Step* step, Segment*) { change(step->mutable_attributes()); });
  }

  static Program* program_;
};

Program* UnetVerifyTest::program_ = nullptr;

TEST_F(UnetVerifyTest, Attributes) {
  EXPECT_THAT(AttributeRefusal(CONV2D, [](StepAttributes* a) { a->set_kernel_size(2); }),
              HasSubstr("kernel_size is 2"));
  EXPECT_THAT(AttributeRefusal(CONV2D, [](StepAttributes* a) { a->set_stride(0); }), HasSubstr("stride is 0"));
  EXPECT_THAT(AttributeRefusal(CONV2D, [](StepAttributes* a) { a->set_height(1 << 20); }), HasSubstr("height is"));
  EXPECT_THAT(AttributeRefusal(CONV2D, [](StepAttributes* a) { a->set_height(7); }), HasSubstr("rows of whole images"));
  EXPECT_THAT(AttributeRefusal(CONV2D_BACKWARD, [](StepAttributes* a) { a->set_stride(3); }),
              HasSubstr("must have shape"));
  EXPECT_THAT(AttributeRefusal(CONV2D, [](StepAttributes* a) { a->set_groups(1); }),
              HasSubstr("does not read attribute groups"));
  EXPECT_THAT(AttributeRefusal(GROUP_NORM, [](StepAttributes* a) { a->set_groups(5); }), HasSubstr("groups is 5"));
  EXPECT_THAT(AttributeRefusal(GROUP_NORM_BACKWARD, [](StepAttributes* a) { a->set_sequence(0); }),
              HasSubstr("sequence is 0"));
  EXPECT_THAT(AttributeRefusal(GROUP_NORM_BACKWARD_WEIGHT, [](StepAttributes* a) { a->set_groups(2); }),
              HasSubstr("must have shape"));
  EXPECT_THAT(AttributeRefusal(UPSAMPLE, [](StepAttributes* a) { a->set_width(-1); }), HasSubstr("width is -1"));
  EXPECT_THAT(AttributeRefusal(SLICE_COLUMNS, [](StepAttributes* a) { a->set_first_column(-1); }),
              HasSubstr("first_column is -1"));
  EXPECT_THAT(AttributeRefusal(SLICE_COLUMNS, [](StepAttributes* a) { a->set_groups(-1); }), HasSubstr("groups is -1"));
  EXPECT_THAT(AttributeRefusal(SLICE_COLUMNS, [](StepAttributes* a) { a->set_groups(int64_t{1} << 62); }),
              HasSubstr("a divisor of the input's rows"));
  EXPECT_THAT(AttributeRefusal(SLICE_COLUMNS, [](StepAttributes* a) { a->set_groups(2); }),
              HasSubstr("must have shape"));
  EXPECT_THAT(AttributeRefusal(SLICE_COLUMNS,
                               [](StepAttributes* a) {
                                 ShiftTerm& term = *a->mutable_column_shift()->add_terms();
                                 term.set_axis("pipe");
                                 term.set_stride(1000);
                               }),
              HasSubstr("column_shift is up to 1000"));
  EXPECT_THAT(AttributeRefusal(LOAD_NOISY_IMAGE, [](StepAttributes* a) { a->set_diffusion_steps(0); }),
              HasSubstr("diffusion_steps is 0"));
  EXPECT_THAT(AttributeRefusal(LOAD_NOISE, [](StepAttributes* a) { a->set_sequence(32); }),
              HasSubstr("sequence is 32"));
  EXPECT_THAT(AttributeRefusal(LOAD_TIMESTEPS, [](StepAttributes* a) { a->set_microbatch_offset(1); }),
              HasSubstr("the action has 1"));
  EXPECT_THAT(AttributeRefusal(TIMESTEP_EMBEDDING, [](StepAttributes* a) { a->set_timestep_scale(0); }),
              HasSubstr("timestep_scale is 0"));
  EXPECT_THAT(AttributeRefusal(ADD_PER_SAMPLE, [](StepAttributes* a) { a->set_sequence(3); }),
              HasSubstr("sequence is 3"));
  EXPECT_THAT(AttributeRefusal(SQUARED_ERROR, [](StepAttributes* a) { a->set_loss_weight(-1); }),
              HasSubstr("loss_weight is -1"));
  EXPECT_THAT(AttributeRefusal(SQUARED_ERROR, [](StepAttributes* a) { a->set_sequence(0); }),
              HasSubstr("whole microbatches"));
  EXPECT_THAT(AttributeRefusal(DROPOUT, [](StepAttributes* a) { a->set_sequence(1000); }),
              HasSubstr("whole microbatches"));
  EXPECT_THAT(AttributeRefusal(DROPOUT, [](StepAttributes* a) { a->set_sequence(0); }), HasSubstr("sequence is 0"));
  EXPECT_THAT(AttributeRefusal(DROPOUT, [](StepAttributes* a) { a->set_sequence(-64); }), HasSubstr("sequence is -64"));
}

TEST_F(UnetVerifyTest, ShapesAndAccess) {
  const auto drop_input = [](Step* step, Segment*) { step->mutable_inputs()->RemoveLast(); };
  for (Kernel kernel : {CONV2D_BACKWARD, CONV2D_BACKWARD_WEIGHT, GROUP_NORM, GROUP_NORM_BACKWARD, CONCAT_COLUMNS, SILU,
                        SILU_BACKWARD, SUM_PER_SAMPLE, SQUARED_ERROR, SQUARED_ERROR_BACKWARD, UPSAMPLE_BACKWARD}) {
    EXPECT_THAT(Refusal(kernel, drop_input), HasSubstr("inputs and")) << Kernel_Name(kernel);
  }
  EXPECT_THAT(Refusal(SILU, [](Step* step, Segment*) { step->set_accumulate(true); }),
              HasSubstr("accumulate is set, which this kernel does not support"));
  EXPECT_THAT(
      Refusal(SQUARED_ERROR, [](Step* step, Segment* s) { s->mutable_values(step->inputs(1))->set_dtype(INT32); }),
      HasSubstr("must be"));
  EXPECT_THAT(Refusal(CONV2D, [](Step* step, Segment*) { step->set_outputs(0, step->inputs(0)); }),
              HasSubstr("segment"));
}

TEST_F(UnetVerifyTest, Program) {
  weft::Program program = *program_;
  program.set_image_channels(4);
  EXPECT_THAT(std::string(VerifyProgram(program).message()), HasSubstr("must have shape"));
  program = *program_;
  program.set_image_size(9);
  EXPECT_THAT(std::string(VerifyProgram(program).message()), HasSubstr("must be the number of pixels of an image, 81"));
  program = *program_;
  program.set_image_size(0);
  EXPECT_FALSE(VerifyProgram(program).ok());
  program = *program_;
  ASSERT_GT(program.skips_size(), 0);
  program.mutable_skips(0)->set_to_stage(0);
  EXPECT_THAT(std::string(VerifyProgram(program).message()), HasSubstr("it must lead to a later one"));
}

}  // namespace
}  // namespace weft
