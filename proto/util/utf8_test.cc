#include "proto/util/utf8.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// Tests the decoder by its definition: every sequence of up to 4 bytes from AppendUtf8 is valid, and nothing else is.
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
  // Valid sequences of 3 bytes: 0x10000 - 0x800 code points minus 0x800 surrogates; of 2 bytes: 0x800 - 0x80.
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
  // This includes two-byte sequences followed by one ASCII byte.
  EXPECT_EQ(three, 0x10000 - 0x800 - 0x800 + (0x800 - 0x80) * 0x80);
  EXPECT_EQ(FirstInvalidUtf8("ab\xf4\x90\x80\x80"), 2u);  // U+110000
  EXPECT_EQ(FirstInvalidUtf8("\xf8\x88\x80\x80\x80"), 0u);
}

TEST(Utf8, SaysWhatIsAsciiText) {
  for (size_t size = 0; size < 40; ++size) {
    for (const char good : {'\x01', 'a', '\x7f'}) {
      std::string text(size, good);
      EXPECT_TRUE(IsAsciiText(text)) << size;
      for (size_t i = 0; i < size; ++i) {
        for (const char bad : {'\0', '\x80', '\x81', '\xff'}) {
          text[i] = bad;
          EXPECT_FALSE(IsAsciiText(text)) << size << " " << i;
        }
        text[i] = good;
      }
    }
  }
}

// ASCII is skipped in words of eight bytes. An invalid byte is found at every place in and after them.
TEST(Utf8, FindsTheFirstInvalidByteAnywhere) {
  for (size_t size = 0; size < 40; ++size) {
    EXPECT_EQ(FirstInvalidUtf8(std::string(size, 'a')), size);
    for (size_t i = 0; i < size; ++i) {
      std::string text(size, 'a');
      text[i] = '\x80';
      EXPECT_EQ(FirstInvalidUtf8(text), i) << size;
      text[i] = '\xc3';
      EXPECT_EQ(FirstInvalidUtf8(text), i) << size;
      if (i + 1 == size) continue;
      text[i + 1] = '\xa9';
      EXPECT_EQ(FirstInvalidUtf8(text), size) << i;
    }
  }
}

TEST(Utf8, CodePointsBecomeTheBytesOfRfc3629) {
  const auto bytes = [](uint32_t code) {
    std::string text = "<";
    AppendUtf8(code, &text);
    return text;
  };
  // Section 7 of the RFC, and the ends of each length.
  EXPECT_EQ(bytes(0x7f), "<\x7f");
  EXPECT_EQ(bytes(0x80), "<\xc2\x80");
  EXPECT_EQ(bytes(0x391), "<\xce\x91");
  EXPECT_EQ(bytes(0x7ff), "<\xdf\xbf");
  EXPECT_EQ(bytes(0x2262), "<\xe2\x89\xa2");
  EXPECT_EQ(bytes(0xffff), "<\xef\xbf\xbf");
  EXPECT_EQ(bytes(0x233b4), "<\xf0\xa3\x8e\xb4");
  EXPECT_EQ(bytes(0x10ffff), "<\xf4\x8f\xbf\xbf");
}

}  // namespace
}  // namespace weft
