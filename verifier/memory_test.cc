#include "verifier/memory.h"

#include "gmock/gmock.h"
#include "verifier/testing/stages_testing.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Found(const Program& program) {
  const Index index = IndexOf(program);
  Findings findings(20);
  for (const TemplateIndex& t : index.templates) CheckMemory(index, t, &findings);
  return Texts(std::move(findings));
}

TEST(Memory, AcceptsOrderedAccesses) {
  EXPECT_THAT(Found(TinyProgram()), IsEmpty());
  EXPECT_THAT(Found(TinyEvaluation()), IsEmpty());
}

TEST(Memory, TwoUsesOfBytesWaitForOneAnother) {
  Program unread = TinyProgram();
  RemoveDep(&unread, 1, "F0", "recv F0");
  EXPECT_THAT(Found(unread), Contains(AllOf(HasSubstr("P7.race"), HasSubstr("'recv F0'"), HasSubstr("'x0'"))));
  Program unsent = TinyProgram();
  RemoveDep(&unsent, 0, "F0", "send F0");
  EXPECT_THAT(Found(unsent), Contains(AllOf(HasSubstr("P7.race"), HasSubstr("'F0' of the next repetition"))));
}

TEST(Memory, FindsReadsOfUnwrittenBytes) {
  Program program = TinyProgram();
  RemoveAction(&program, 1, "recv F0");
  EXPECT_THAT(Found(program), Contains(AllOf(HasSubstr("P7.undefined"), HasSubstr("'F0'"), HasSubstr("'x0'"))));
}

TEST(Memory, BuffersAreReleasedAfterTheirLastUse) {
  Program never = TinyProgram();
  FindAction(&never, 0, "send F0")->clear_releases();
  EXPECT_THAT(Found(never), Contains(AllOf(HasSubstr("P7.release"), HasSubstr("'y0'"))));
}

}  // namespace
}  // namespace weft::verify
