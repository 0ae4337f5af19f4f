#include "proto/util/suggest.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("gpipe", "GPipe"), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("1fib", "1f1b"), 1);
  EXPECT_EQ(EditDistance("lauers", "layers"), 1);
  EXPECT_EQ(EditDistance("alyers", "layers"), 1);  // A swap is one slip.
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance(std::string(10000, 'a'), std::string(10000, 'b')), 128);
}

TEST(Nearest, FirstOfTheBestOrNothing) {
  const std::vector<std::string> names = {"1f1b", "gpipe", "1f2b"};
  EXPECT_EQ(Nearest("1f3b", names), "1f1b");
  EXPECT_EQ(Nearest("gpip", names), "gpipe");
  EXPECT_EQ(Nearest("chimera", names), "");
  EXPECT_EQ(Nearest("", names), "");
  EXPECT_EQ(Nearest("x", {}), "");
  // An unfinished name matches.
  const std::vector<std::string> clusters = {"dgx-h100", "dgx-a100-40g", "DGX-A100-80g-old", "selene"};
  EXPECT_EQ(Nearest("dgx-a100", clusters), "dgx-a100-40g");
  EXPECT_EQ(Nearest("dgx-a100-80", clusters), "DGX-A100-80g-old");
  EXPECT_EQ(Nearest("dgx-a1O0", clusters), "dgx-h100");
  EXPECT_EQ(Nearest("dg", clusters), "");
  EXPECT_EQ(NameHelp("gipe", names), "; nearest: 'gpipe'; known: 1f1b, gpipe, 1f2b");
  EXPECT_EQ(NameHelp("chimera", names), "; known: 1f1b, gpipe, 1f2b");
}

TEST(Quoted, StaysOnOneLine) {
  EXPECT_EQ(Quoted("a\nb"), "'a\\x0ab'");
  EXPECT_EQ(Quoted("é\xff\xc3"), "'é\\xff\\xc3'");
  EXPECT_EQ(Quoted(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(Quoted(std::string(100, 'x')), "'" + std::string(80, 'x') + "…'");
}

TEST(Quoted, NothingATerminalObeys) {
  // The texts contain an operating system command (C1) and a direction override.
  EXPECT_EQ(Quoted("a\xc2\x9d"
                   "b"),
            "'a\\u009db'");
  EXPECT_EQ(Quoted("gpt\u202etxet"), "'gpt\\u202etxet'");
}

TEST(Quoted, EndsBetweenCharacters) {
  const std::string text(79, 'x');
  EXPECT_EQ(Quoted(text + "é"), "'" + text + "…'");
  EXPECT_EQ(Quoted(text + "🙂"), "'" + text + "…'");
  EXPECT_EQ(Quoted(text + "yé"), "'" + text + "y…'");
  EXPECT_EQ(Quoted(text + "\xff\xff"), "'" + text + "\\xff…'");
}

}  // namespace
}  // namespace weft
