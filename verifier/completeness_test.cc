#include "verifier/completeness.h"

#include "gmock/gmock.h"
#include "verifier/testing/stages_testing.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Found(const Program& program, bool training = true) {
  const Index index = IndexOf(program);
  Findings findings(20);
  CheckCompleteness(index, training, &findings);
  return Texts(std::move(findings));
}

TEST(Completeness, RecognizesTrainingPrograms) {
  EXPECT_TRUE(IsTraining(TinyProgram()));
  EXPECT_FALSE(IsTraining(TinyEvaluation()));
  // One buffer with a role of the optimizer makes it a training program.
  Program evaluation = TinyEvaluation();
  evaluation.mutable_templates(0)->mutable_buffers(0)->set_role(MOMENT1);
  EXPECT_TRUE(IsTraining(evaluation));
}

TEST(Completeness, EveryStageSeesEveryMicrobatchOnce) {
  EXPECT_THAT(Found(TinyProgram()), IsEmpty());
  EXPECT_THAT(Found(TinyEvaluation(), false), IsEmpty());
  // An evaluation has no backwards.
  EXPECT_THAT(Found(TinyEvaluation()), ElementsAre(HasSubstr("runs the BACKWARD of stage 0, microbatch 0")));

  Program missing = TinyProgram();
  RemoveAction(&missing, 0, "F1");
  EXPECT_THAT(Found(missing), Contains(AllOf(HasSubstr("P13.complete"), HasSubstr("'pipe0'"),
                                             HasSubstr("runs the FORWARD of stage 0, microbatch 1"))));
  Program twice = TinyProgram();
  FindAction(&twice, 0, "F1")->set_microbatch(0);
  EXPECT_THAT(Found(twice), Contains(HasSubstr("stage 0 sees microbatch 0 twice")));
  Program elsewhere = TinyProgram();
  FindAction(&elsewhere, 1, "B1")->set_stage(0);
  EXPECT_THAT(Found(elsewhere), Contains(HasSubstr("'B1'")));
}

TEST(Completeness, ABackwardWaitsForItsForward) {
  Program program = TinyProgram();
  // On the last rank only their order in the list makes B0 wait for F0.
  SwapActions(&program, 1, "F0", "B0");
  EXPECT_THAT(Found(program), Contains(AllOf(HasSubstr("P13.order"), HasSubstr("'B0'"), HasSubstr("'F0'"))));
}

}  // namespace
}  // namespace weft::verify
