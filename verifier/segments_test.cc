// Tests that a segment that is like an earlier one is checked as if it stood alone.
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "verifier/index.h"
#include "verifier/testing/stages_testing.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

using Edit = std::function<void(Segment*, Step*)>;

std::vector<std::string> Found(const Segment& first, const Segment& second) {
  Program program = TinyProgram();
  program.clear_segments();
  *program.add_segments() = first;
  *program.add_segments() = second;
  Findings findings(20);
  CheckSegments(program, {}, &findings);
  return Texts(std::move(findings));
}

// Edits of a step that the row of its kernel may forbid.
std::vector<Edit> Edits(const Step& step) {
  std::vector<Edit> edits = {
      [](Segment*, Step* s) { s->set_kernel(s->kernel() == ADD ? SILU : ADD); },
      [](Segment*, Step* s) { s->set_accumulate(!s->accumulate()); },
      [](Segment*, Step* s) { s->set_stream(s->stream() == COMPUTE ? COLLECTIVE : COMPUTE); },
      [](Segment*, Step* s) { s->mutable_collective(); },
      [](Segment*, Step* s) { s->mutable_attributes()->set_heads(s->attributes().heads() + 3); },
      [](Segment*, Step* s) { s->mutable_attributes()->set_transpose_a(!s->attributes().transpose_a()); },
      [](Segment*, Step* s) { s->clear_attributes(); },
      [](Segment*, Step* s) { s->clear_inputs(); },
  };
  for (int i = 0; i < step.inputs_size() + step.outputs_size(); ++i) {
    const auto value = [i](Segment* segment, Step* s) {
      return segment->mutable_values(i < s->inputs_size() ? s->inputs(i) : s->outputs(i - s->inputs_size()));
    };
    edits.push_back([=](Segment* a, Step* s) { value(a, s)->set_dtype(value(a, s)->dtype() == FP16 ? BF16 : FP16); });
    edits.push_back([=](Segment* a, Step* s) { value(a, s)->mutable_shape()->Clear(); });
    edits.push_back([=](Segment* a, Step* s) {
      if (s->outputs_size() > 0) *value(a, s) = a->values(s->outputs(0));
    });
  }
  return edits;
}

TEST(Segments, AChangeOfASegmentThatWasLikeAnEarlierOneIsFound) {
  const Program tiny = TinyProgram();
  int refused = 0;
  for (const Segment& segment : tiny.segments()) {
    EXPECT_THAT(Found(segment, segment), testing::IsEmpty());
    // The longer segment has another number of steps, so the second segment is not compared with it but checked alone.
    Segment longer = segment;
    *longer.add_steps() = segment.steps(segment.steps_size() - 1);
    for (int i = 0; i < segment.steps_size(); ++i) {
      for (const Edit& edit : Edits(segment.steps(i))) {
        Segment edited = segment;
        edit(&edited, edited.mutable_steps(i));
        const std::vector<std::string> alone = Found(longer, edited);
        EXPECT_EQ(Found(segment, edited), alone) << segment.name() << ", step " << i;
        refused += !alone.empty();
      }
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace weft::verify
