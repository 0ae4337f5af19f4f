// Tests what actions bind to their segments, and the microbatches of steps.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/parse_text.h"
#include "verifier/actions.h"
#include "verifier/testing/stages_testing.h"

namespace weft::verify {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Found(const std::string& segment, const std::string& action) {
  const Program program = Parse<Program>(absl::StrCat(
      "stages: 1 microbatches: 8 mesh { axes { name: 'data' size: 1 } } ",
      "recipe { sequence_length: 4 microbatch_sequences: 2 } ", "segments { name: 'first' ", segment,
      " } templates { name: 'all' buffers { name: 'small' bytes: 32 } buffers { name: 'large' bytes: 512 } ",
      "buffers { name: 'also large' bytes: 512 } body { id: 0 name: 'act' kind: FORWARD ", action, " } }"));
  Findings findings(20);
  CheckActions(program, {}, &findings);
  return Texts(std::move(findings));
}

// A microbatch has 8 rows. A step that reads `count` microbatches from `offset` on must stay within the action's
// microbatches, or the verifier refuses it.
TEST(ActionSegments, MicrobatchesOfStepsAreThoseOfTheAction) {
  for (int width = 0; width <= 4; ++width) {
    for (int count = 1; count <= 4; ++count) {
      for (int offset = -1; offset <= 4; ++offset) {
        const auto found = Found(
            absl::StrCat("operands { bytes: 512 access: WRITE } values { operand: 0 dtype: INT32 shape: ", 8 * count,
                         " } steps { name: 'tokens' kernel: LOAD_TOKENS outputs: 0 attributes { microbatch_offset: ",
                         offset, " } }"),
            absl::StrCat("segment: 0 operands: 1 width: ", width));
        const std::string what = absl::StrCat(count, " from ", offset, " of ", width);
        if (offset >= 0 && offset + count <= std::max(1, width)) {
          EXPECT_THAT(found, IsEmpty()) << what;
        } else {
          EXPECT_THAT(found, ElementsAre(AllOf(HasSubstr("P2.kernel"), HasSubstr("'tokens'")))) << what;
        }
      }
    }
  }
}

// Returns a segment with two operands. `access` is the access mode of the second.
std::string Two(const std::string& access) {
  return "operands { name: 'a' bytes: 512 access: READ } operands { name: 'b' bytes: 512 access: " + access +
         " } values { operand: 0 dtype: FP32 shape: 8 } values { operand: 1 dtype: FP32 shape: 8 } "
         "steps { name: 'both' kernel: ADD inputs: 0 inputs: 1 }";
}

TEST(ActionSegments, OperandsAreAsManyAndAsLarge) {
  EXPECT_THAT(Found(Two("READ"), "segment: 0 operands: 1 operands: 2"), IsEmpty());
  EXPECT_THAT(Found(Two("READ"), "segment: 0 operands: 1"), ElementsAre(HasSubstr("binds 1 operands")));
  EXPECT_THAT(Found(Two("READ"), "segment: 0 operands: 1 operands: 0"),
              ElementsAre(AllOf(HasSubstr("'small'"), HasSubstr("32 bytes to operand 'b' of 512"))));
  EXPECT_THAT(Found(Two("READ"), "segment: 0 operands: 1 operands: 3"), ElementsAre(HasSubstr("P2.buffer")));
  EXPECT_THAT(Found(Two("READ"), "segment: 1 operands: 1 operands: 2"), ElementsAre(HasSubstr("P2.segment")));
}

// The bindings of the first action do not carry over to the second.
TEST(ActionSegments, BuffersBoundTwiceMayOnlyBeRead) {
  const std::string second = "} body { id: 1 name: 'again' kind: FORWARD segment: 0 operands: 2 operands: 1";
  EXPECT_THAT(Found(Two("READ"), "segment: 0 operands: 1 operands: 1"), IsEmpty());
  EXPECT_THAT(Found(Two("WRITE"), "segment: 0 operands: 1 operands: 2 " + second), IsEmpty());
  EXPECT_THAT(
      Found(Two("WRITE"), "segment: 0 operands: 1 operands: 1"),
      ElementsAre(AllOf(HasSubstr("P2.operand"), HasSubstr("'a' and 'b', but the segment writes one of them"))));
}

}  // namespace
}  // namespace weft::verify
