// Tests rule P15.scale on a handwritten template: the factor of updates that are judged later.
#include "verifier/post_validation_scale.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::verify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// VALIDATE (1) computes the norm from the sums "norms" and divides it by the kept scale. KEEP_STATE (2) computes the
// norm of "nothing" and divides it by the current scale. The optimizer (3) reads this norm.
constexpr char kProgram[] = R"pb(
  segments {
    name: "verdict"
    operands { name: "norms" access: READ }
    operands { name: "scale" access: READ }
    operands { name: "norm" access: WRITE }
    values { operand: 0 }
    values { operand: 1 }
    values { operand: 2 }
    steps {
      name: "total"
      kernel: NORM_TOTAL
      inputs: [ 0, 1 ]
      outputs: 2
      attributes { clip_norm: 1 }
    }
  }
  segments {
    name: "keep"
    operands { name: "weight" access: READ }
    operands { name: "nothing" access: READ }
    operands { name: "scale" access: READ }
    operands { name: "norm" access: WRITE }
    operands { name: "kept" access: WRITE }
    values { operand: 0 }
    values { operand: 1 }
    values { operand: 2 }
    values { operand: 3 }
    values { operand: 4 }
    steps { name: "copy" kernel: CAST inputs: 0 outputs: 4 }
    steps {
      name: "assumed"
      kernel: NORM_TOTAL
      inputs: [ 1, 2 ]
      outputs: 3
      attributes { clip_norm: 1 }
    }
  }
  segments {
    name: "update"
    operands { name: "norm" access: READ }
    operands { name: "weight" access: READ_WRITE }
  }
  templates {
    name: "t"
    buffers { name: "norms" role: NORMS persistent: true }
    buffers { name: "scale" role: LOSS_SCALE persistent: true }
    buffers { name: "kept scale" role: LOSS_SCALE version: 1 persistent: true }
    buffers { name: "norm" role: NORM persistent: true }
    buffers { name: "nothing" persistent: true }
    buffers { name: "weight" role: MASTER persistent: true }
    buffers { name: "kept" role: KEPT_WEIGHT persistent: true }
    body {
      id: 1
      kind: VALIDATE
      segment: 0
      operands: [ 0, 2, 3 ]
    }
    body {
      id: 2
      kind: KEEP_STATE
      segment: 1
      operands: [ 5, 4, 1, 3, 6 ]
    }
    body {
      id: 3
      kind: OPTIMIZER_STEP
      segment: 2
      operands: [ 3, 5 ]
    }
    epilogue {
      id: 4
      kind: VALIDATE
      segment: 0
      operands: [ 0, 2, 3 ]
    }
  })pb";

class PostValidationScaleTest : public testing::Test {
 protected:
  Template& t() { return *program_.mutable_templates(0); }
  Step& Assumed() { return *program_.mutable_segments(1)->mutable_steps(1); }
  Step& Total() { return *program_.mutable_segments(0)->mutable_steps(0); }

  std::vector<std::string> Find() {
    PostValidationLists lists;
    lists.body.validate = &t().body(0);
    lists.keep = keeps_ ? &t().body(1) : nullptr;
    Findings findings(10);
    CheckAssumedFactor(program_, t(), lists, &findings);
    std::vector<std::string> messages;
    for (const Finding& finding : findings.Take()) {
      EXPECT_EQ(finding.rule, "P15.scale");
      messages.push_back(finding.message);
    }
    return messages;
  }

  Program program_ = Parse<Program>(kProgram);
  bool keeps_ = true;
};

TEST_F(PostValidationScaleTest, AcceptsADynamicScale) { EXPECT_THAT(Find(), IsEmpty()); }

TEST_F(PostValidationScaleTest, AcceptsAConstantScale) {
  for (Step* step : {&Total(), &Assumed()}) {
    step->mutable_inputs()->RemoveLast();
    step->mutable_attributes()->set_loss_scale(1024);
  }
  EXPECT_THAT(Find(), IsEmpty());
  Assumed().mutable_attributes()->set_loss_scale(512);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("step 'assumed' is not the kernel of")));
}

// If nothing is scaled, the update assumes no factor.
TEST_F(PostValidationScaleTest, WithoutAScaleNoNormIsAssumed) {
  for (Step* step : {&Total(), &Assumed()}) step->mutable_inputs()->RemoveLast();
  EXPECT_THAT(Find(),
              ElementsAre(HasSubstr("takes 1 norm totals; it must take 0, because the update reads no factor")));
  program_.mutable_segments(1)->mutable_steps()->RemoveLast();
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PostValidationScaleTest, TheVerdictIsOneNormByTheScaleOfItsStep) {
  t().mutable_body(0)->set_operands(1, 1);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("divides by a scale that may differ")));
  // The finding is the same if the program has no KEEP_STATE.
  keeps_ = false;
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("divides by a scale that may differ")));
  t().mutable_body(0)->set_operands(1, 2);
  EXPECT_THAT(Find(), IsEmpty());
  *program_.mutable_segments(0)->add_steps() = Total();
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("takes several norms")));
}

TEST_F(PostValidationScaleTest, OneNormIsAssumed) {
  const Program good = program_;
  *program_.mutable_segments(1)->add_steps() = Assumed();
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("takes 2 norm totals; it must take 1, of norms")));
  program_ = good;
  program_.mutable_segments(1)->mutable_steps()->RemoveLast();
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("takes 0 norm totals; it must take 1, of norms")));
}

TEST_F(PostValidationScaleTest, TheAssumedNormIsTheVerdictOfNothing) {
  const Program good = program_;
  Assumed().mutable_attributes()->set_clip_norm(2);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("step 'assumed' is not the kernel of")));
  program_ = good;
  Assumed().set_outputs(0, 4);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("step 'assumed' does not write")));
  // KEEP_STATE must divide by the current scale, not by the kept scale or by another buffer.
  for (int other : {2, 0}) {
    program_ = good;
    t().mutable_body(1)->set_operands(2, other);
    EXPECT_THAT(Find(), ElementsAre(HasSubstr("step 'assumed' divides by"))) << other;
  }
}

TEST_F(PostValidationScaleTest, NothingIsZeroAtAllTimes) {
  const Program good = program_;
  const auto expect_not_zero = [&](const char* what) {
    EXPECT_THAT(Find(), ElementsAre(HasSubstr("which is not zero at all times"))) << what;
    program_ = good;
  };
  t().mutable_buffers(4)->set_persistent(false);
  expect_not_zero("does not last");
  t().mutable_buffers(4)->set_role(NORMS);
  expect_not_zero("holds the norms");
  program_.mutable_segments(1)->mutable_operands(1)->set_access(READ_WRITE);
  expect_not_zero("is written by who takes its norm");
  t().mutable_epilogue(0)->set_operands(2, 4);
  expect_not_zero("is written in the epilogue");
  Action& sum = *t().add_body();
  sum.set_id(9);
  sum.set_kind(ALL_REDUCE);
  sum.add_sources(0);
  sum.add_destinations(4);
  expect_not_zero("is written by a collective");
}

TEST_F(PostValidationScaleTest, NobodyElseWritesTheNorm) {
  const Program good = program_;
  program_.mutable_segments(2)->mutable_operands(0)->set_access(READ_WRITE);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("which only VALIDATE, KEEP_STATE and SCALE_GRADIENTS may write")));
  // SCALE_GRADIENTS may write NORM, with the true norm.
  t().mutable_body(2)->set_kind(SCALE_GRADIENTS);
  EXPECT_THAT(Find(), IsEmpty());
  program_ = good;
  Action& sum = *t().add_body();
  sum.set_id(9);
  sum.set_kind(ALL_REDUCE);
  sum.add_destinations(3);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("which only VALIDATE, KEEP_STATE and SCALE_GRADIENTS may write")));
}

}  // namespace
}  // namespace weft::verify
