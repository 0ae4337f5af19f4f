// Tests that forwards and backwards must read what belongs to their stage and microbatch.
#include <functional>

#include "gmock/gmock.h"
#include "verifier/completeness.h"
#include "verifier/testing/stages_testing.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Found(const std::function<void(Program*)>& edit) {
  const Program program = Edited(edit);
  const Index index = IndexOf(program);
  Findings findings(20);
  const Matching matching = CheckMatching(index, &findings);
  const ListOrders order = CheckDeadlock(index, matching, &findings);
  EXPECT_TRUE(findings.empty());
  CheckDataflow(index, matching, order, /*training=*/true, &findings);
  return Texts(std::move(findings));
}

// Replaces buffer `from` by buffer `to` in the operands of `action`.
void Rebind(Program* program, int t, const char* action, const char* from, const char* to) {
  for (int& b : *FindAction(program, t, action)->mutable_operands()) {
    if (b == FindBuffer(*program, t, from)) b = FindBuffer(*program, t, to);
  }
}

TEST(DataflowMicrobatch, ASoundProgramReadsItsOwn) {
  EXPECT_THAT(Found([](Program*) {}), IsEmpty());
}

TEST(DataflowMicrobatch, ABackwardReadsWhatItsForwardSaved) {
  // The last stage's backward of microbatch 1 reads what microbatch 0 saved.
  EXPECT_THAT(Found([](Program* p) { Rebind(p, 1, "B1", "saved1", "saved0"); }),
              Contains(AllOf(HasSubstr("P13.input"), HasSubstr("'B1'"), HasSubstr("'saved0'"),
                             HasSubstr("which holds what the forward of stage 1, microbatch 0 made"))));
}

TEST(DataflowMicrobatch, AForwardReadsWhatTheStageBeforeMade) {
  EXPECT_THAT(Found([](Program* p) { Rebind(p, 1, "F1", "x1", "x0"); }),
              Contains(AllOf(HasSubstr("P13.input"), HasSubstr("'F1'"), HasSubstr("microbatch 0"))));
}

}  // namespace
}  // namespace weft::verify
