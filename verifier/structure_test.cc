#include <functional>
#include <limits>

#include "gmock/gmock.h"
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
  Findings findings(20);
  CheckStructure(program, {}, &findings);
  if (findings.empty()) CheckBuffers(program, &findings);
  return Texts(std::move(findings));
}

TEST(Structure, AcceptsASoundProgram) {
  EXPECT_THAT(Found([](Program*) {}), IsEmpty());
}

TEST(Structure, SizesAreInRange) {
  EXPECT_THAT(Found([](Program* p) { p->set_microbatches(0); }), Contains(HasSubstr("microbatches")));
  EXPECT_THAT(Found([](Program* p) { p->mutable_mesh()->mutable_axes(0)->set_size(0); }), Contains(HasSubstr("size")));
  EXPECT_THAT(Found([](Program* p) { p->mutable_mesh()->mutable_axes(1)->set_name(p->mesh().axes(0).name()); }),
              Contains(HasSubstr("'" + TinyProgram().mesh().axes(0).name() + "'")));
  EXPECT_THAT(Found([](Program* p) { p->mutable_recipe()->set_global_batch_sequences(5); }),
              Contains(AllOf(HasSubstr("P9.batch"), HasSubstr("is 5"))));
}

TEST(Structure, BuffersLieInTheirArena) {
  EXPECT_THAT(Found([](Program* p) { MutableBuffer(p, 0, "y0")->set_class_(BUFFER_CLASS_UNSPECIFIED); }),
              Contains(AllOf(HasSubstr("P7.class"), HasSubstr("'y0'"))));
  EXPECT_THAT(Found([](Program* p) { MutableBuffer(p, 0, "y0")->set_offset(100); }),
              Contains(AllOf(HasSubstr("P7.alignment"), HasSubstr("100"))));
  EXPECT_THAT(
      Found([](Program* p) { MutableBuffer(p, 0, "y0")->set_offset(std::numeric_limits<int64_t>::max() - 255); }),
      Contains(AllOf(HasSubstr("P7.arena"), HasSubstr("'y0'"))));
  EXPECT_THAT(Found([](Program* p) { MutableBuffer(p, 0, "y0")->set_shape(0, 5); }),
              Contains(AllOf(HasSubstr("P7.shape"), HasSubstr("'y0'"))));
  EXPECT_THAT(Found([](Program* p) { MutableBuffer(p, 0, "dwte")->set_use(2); }),
              Contains(AllOf(HasSubstr("P7.role"), HasSubstr("use 2"))));
}

}  // namespace
}  // namespace weft::verify
