#include "proto/util/printable.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/util/utf8.h"

namespace weft {
namespace {

std::string Utf8(uint32_t code_point) {
  std::string text;
  AppendUtf8(code_point, &text);
  return text;
}

TEST(PrintableTest, TextStaysAsItIs) {
  for (const std::string text : {"", "plan.textproto", "größe 重み 🙂", "a\\b 'c'"}) EXPECT_EQ(Printable(text), text);
}

TEST(PrintableTest, ControlCharactersAreBytes) {
  EXPECT_EQ(Printable("a\x1b[31mb\n\t\x7f"), "a\\x1b[31mb\\x0a\\x09\\x7f");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a\\x00b");
}

TEST(PrintableTest, BytesThatAreNoUtf8AreShownOneByOne) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  // In each text, a sequence of several bytes is cut off: by other text, by the end, or by the beginning of another
  // sequence.
  EXPECT_EQ(Printable("é\xc3z"), "é\\xc3z");
  EXPECT_EQ(Printable("z\xe2\x80"), "z\\xe2\\x80");
  EXPECT_EQ(Printable("\xf0\xf0\x9f\x99\x82"), "\\xf0🙂");
  // Invalid sequences: a surrogate, and "/" encoded in two bytes.
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");
}

TEST(PrintableTest, EscapesControlCharactersBeyondAscii) {
  // These are C1 control characters: operating system command and next line.
  EXPECT_EQ(Printable("a" + Utf8(0x9d) + "b" + Utf8(0x85)), "a\\u009db\\u0085");
  // Without escapes, a terminal would show "gpttext".
  EXPECT_EQ(Printable("gpt" + Utf8(0x202e) + "txet" + Utf8(0x202c)), "gpt\\u202etxet\\u202c");
}

TEST(PrintableTest, EndsOfLinesStayBetweenLines) {
  EXPECT_EQ(PrintableLines("a\x1b\nb\tc\n\n"), "a\\x1b\nb\\x09c\n\n");
  EXPECT_EQ(PrintableLines("\nend\r"), "\nend\\x0d");
  EXPECT_EQ(PrintableLines(""), "");
}

TEST(PrintableTest, LongTextIsCutInItsMiddle) {
  EXPECT_EQ(CutInMiddle("abcdef", 6), "abcdef");
  EXPECT_EQ(CutInMiddle("abcdefghij", 6), "abcd ... (4 bytes left out) ... ij");
  // The text is cut between characters.
  EXPECT_EQ(CutInMiddle("abcéfghéj", 6), "abc ... (7 bytes left out) ... j");
  const std::string line = MessageLine("a\n" + std::string(1 << 20, 'b') + "z");
  EXPECT_EQ(line.substr(0, 5), "a\\x0a");
  EXPECT_EQ(line.back(), 'z');
  EXPECT_LT(line.size(), 4100u);
  EXPECT_NE(line.find("b ... (1044"), std::string::npos);
  EXPECT_EQ(MessageLine("short\n"), "short\\x0a");
}

// Tests every code point: exactly these are spelled out.
TEST(PrintableTest, NothingElseIsSpeltOut) {
  std::string obeyed;
  for (uint32_t point = 0x80; point <= 0x10ffff; ++point) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    if (Printable(Utf8(point)) != Utf8(point)) obeyed += Printable(Utf8(point));
  }
  std::string c1;
  for (const char* digits = "0123456789abcdef"; *digits != 0; ++digits) c1 += std::string("\\u008") + *digits;
  for (const char* digits = "0123456789abcdef"; *digits != 0; ++digits) c1 += std::string("\\u009") + *digits;
  EXPECT_EQ(obeyed, c1 + "\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a\\u202b\\u202c\\u202d\\u202e"
                         "\\u2066\\u2067\\u2068\\u2069");
}

}  // namespace
}  // namespace weft
