#include "simulator/compare/short_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShortNamesTest, NamesThatFitStay) {
  EXPECT_THAT(ShortNames({}, 8), IsEmpty());
  EXPECT_THAT(ShortNames({"a.weft", "12345678"}, 8), ElementsAre("a.weft", "12345678"));
}

TEST(ShortNamesTest, KeepsTheEndOfLongNames) {
  EXPECT_THAT(ShortNames({"plans/deep.weft", "a.weft"}, 10), ElementsAre("…deep.weft", "a.weft"));
  EXPECT_THAT(ShortNames({"abc"}, 1), ElementsAre("…"));
}

TEST(ShortNamesTest, DifferentNamesStayDifferent) {
  // With nine characters of the end, both would be "…deep.weft".
  EXPECT_THAT(ShortNames({"first/deep.weft", "second/deep.weft"}, 10), ElementsAre("…t/deep.weft", "…d/deep.weft"));
  // The names differ only in the first character.
  EXPECT_THAT(ShortNames({"a/deep.weft", "b/deep.weft"}, 4), ElementsAre("a/deep.weft", "b/deep.weft"));
  // A short name looks like the shortened form of another one.
  EXPECT_THAT(ShortNames({"…p.weft", "deep.weft"}, 7), ElementsAre("…p.weft", "…ep.weft"));
}

TEST(ShortNamesTest, TheSameFileTwiceIsNoReasonToKeepMore) {
  EXPECT_THAT(ShortNames({"plans/deep.weft", "plans/deep.weft"}, 10), ElementsAre("…deep.weft", "…deep.weft"));
}

TEST(ShortNamesTest, CharactersAreCountedAndStayWhole) {
  EXPECT_THAT(ShortNames({"größe重み.weft"}, 12), ElementsAre("größe重み.weft"));
  EXPECT_THAT(ShortNames({"größe重み.weft"}, 8), ElementsAre("…重み.weft"));
}

TEST(ShortNamesTest, EscapesControlCharacters) {
  EXPECT_THAT(ShortNames({"a\x1b.weft"}, 20), ElementsAre("a\\x1b.weft"));
}

}  // namespace
}  // namespace weft::sim
