#include "verifier/evaluation.h"

#include <functional>

#include "gmock/gmock.h"
#include "verifier/testing/stages_testing.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Findings for the tiny program with its evaluation, after `edit` of both.
std::vector<std::string> Found(const std::function<void(Program*, Program*)>& edit) {
  Program program = TinyProgram();
  *program.mutable_evaluation() = TinyEvaluation();
  edit(&program, program.mutable_evaluation());
  Findings findings(20);
  CheckEvaluation(program, &findings);
  return Texts(std::move(findings));
}

TEST(Evaluation, OnTheSameBuffersIsSound) {
  EXPECT_THAT(Found([](Program*, Program*) {}), IsEmpty());
}

TEST(Evaluation, HasTheFiguresOfTraining) {
  EXPECT_THAT(Found([](Program*, Program* e) { e->set_microbatches(3); }),
              Contains("P13.evaluation: evaluation.microbatches is 3, but 2 in training"));
  EXPECT_THAT(Found([](Program*, Program* e) { e->mutable_precision()->set_params(BF16); }),
              Contains(HasSubstr("evaluation.precision.params is bf16, but ")));
  EXPECT_THAT(Found([](Program*, Program* e) { e->mutable_recipe()->set_dropout(0.5); }),
              Contains(HasSubstr("evaluation.recipe.dropout is 0.5; it must be 0")));
  EXPECT_THAT(Found([](Program*, Program* e) { e->mutable_mesh()->mutable_axes(0)->set_size(7); }),
              Contains(HasSubstr("must have the mesh of the training program")));
  EXPECT_THAT(Found([](Program*, Program* e) { e->mutable_tensors(0)->set_name("other"); }),
              Contains(HasSubstr("must have the tensors of the training program")));
  EXPECT_THAT(Found([](Program*, Program* e) { e->mutable_templates()->RemoveLast(); }),
              Contains(HasSubstr("has 1 templates, but the training program has 2")));
  EXPECT_THAT(Found([](Program*, Program* e) { *e->mutable_evaluation() = TinyEvaluation(); }),
              Contains(HasSubstr("must not have an evaluation program of its own")));
  EXPECT_THAT(Found([](Program*, Program* e) { e->mutable_templates(0)->mutable_body(0)->set_kind(OPTIMIZER_STEP); }),
              Contains(HasSubstr("must not hold actions or buffers of training")));
}

TEST(Evaluation, ParametersAreWhereTrainingKeepsThem) {
  EXPECT_THAT(Found([](Program*, Program* e) {
                MutableBuffer(e, 0, "wte")->set_offset(MutableBuffer(e, 0, "wte")->offset() + 256);
              }),
              Contains(HasSubstr("is not at the place of")));
  EXPECT_THAT(Found([](Program* p, Program*) { MutableBuffer(p, 0, "wte")->set_role(NO_ROLE); }),
              Contains(HasSubstr("is a parameter that the training program does not keep here")));
}

TEST(Evaluation, NothingIsOverwrittenInBetween) {
  const auto place_at = [](Program* of, const Buffer& there, const char* name) {
    MutableBuffer(of, 0, name)->set_offset(there.offset());
  };
  // Evaluation writes over a parameter that training keeps.
  EXPECT_THAT(
      Found([&](Program* p, Program* e) { place_at(e, p->templates(0).buffers(FindBuffer(*p, 0, "wte")), "y0"); }),
      Contains(HasSubstr("overwrites")));
  // Evaluation keeps a buffer in memory that training overwrites.
  EXPECT_THAT(Found([&](Program* p, Program* e) {
                place_at(e, p->templates(0).buffers(FindBuffer(*p, 0, "y0")), "y0");
                MutableBuffer(e, 0, "y0")->set_persistent(true);
              }),
              Contains(HasSubstr("is persistent, but")));
}

}  // namespace
}  // namespace weft::verify
