#include "proto/suggest.h"

#include "gtest/gtest.h"
#include "proto/utf8.h"

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
  // A name that is not finished.
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
  EXPECT_EQ(Quoted(std::string(100, 'x')), "'" + std::string(80, 'x') + "…'");
}

// The decoder's definition, code point by code point: every sequence of up to 4 bytes from AppendUtf8 is valid, and
// nothing else is.
TEST(Utf8, AcceptsEveryCodePoint) {
  for (uint32_t code = 0; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    std::string text;
    AppendUtf8(code, &text);
    ASSERT_TRUE(IsValidUtf8(text)) << code;
    for (size_t size = 1; size < text.size(); ++size) {
      ASSERT_EQ(FirstInvalidUtf8(absl::string_view(text).substr(0, size)), 0u) << code;
    }
  }
}

TEST(Utf8, AcceptsNothingElse) {
  // Valid sequences of 3 bytes: 0x10000 - 0x800 code points less 0x800 surrogates; of 2 bytes: 0x800 - 0x80.
  int two = 0, three = 0;
  for (int a = 0x80; a < 0x100; ++a) {
    for (int b = 0; b < 0x100; ++b) {
      two += IsValidUtf8(std::string{static_cast<char>(a), static_cast<char>(b)});
      for (int c = 0; c < 0x100; ++c) {
        three += IsValidUtf8(std::string{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)});
      }
    }
  }
  EXPECT_EQ(two, 0x800 - 0x80);
  // Besides, two bytes followed by one ASCII byte.
  EXPECT_EQ(three, 0x10000 - 0x800 - 0x800 + (0x800 - 0x80) * 0x80);
  EXPECT_EQ(FirstInvalidUtf8("ab\xf4\x90\x80\x80"), 2u);  // U+110000
  EXPECT_EQ(FirstInvalidUtf8("\xf8\x88\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace weft
