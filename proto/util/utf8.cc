#include "proto/util/utf8.h"

#include <cstring>

namespace weft {
namespace {

// Returns the length of the sequence at text[i]; 0 if it is not valid. By RFC 3629, section 4, only the second byte has
// a range that depends on the first byte.
size_t SequenceLength(absl::string_view text, size_t i) {
  const auto byte = [&](size_t k) -> unsigned { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0; };
  const unsigned first = byte(i);
  if (first < 0x80) return 1;
  size_t length = 0;
  unsigned low = 0x80, high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (byte(i + 1) < low || byte(i + 1) > high) return 0;
  for (size_t k = 2; k < length; ++k) {
    if (byte(i + k) < 0x80 || byte(i + k) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

size_t FirstInvalidUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    // Text is mostly ASCII, so check eight bytes at a time.
    uint64_t word = 0;
    if (text.size() - i >= sizeof(word)) {
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const size_t length = SequenceLength(text, i);
    if (length == 0) return i;
    i += length;
  }
  return text.size();
}

bool IsAsciiText(absl::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  // For a byte from 1 to 0x7f, subtracting 1 neither borrows nor sets the high bit. For a NUL it borrows.
  uint64_t word = 0, bad = 0;
  size_t i = 0;
  for (; i + sizeof(word) <= text.size(); i += sizeof(word)) {
    std::memcpy(&word, text.data() + i, sizeof(word));
    bad |= (word - kOnes) | word;
  }
  if (i < text.size() && i > 0) {
    // Check the last eight bytes. Some of them may have been checked already.
    std::memcpy(&word, text.data() + text.size() - sizeof(word), sizeof(word));
    bad |= (word - kOnes) | word;
    i = text.size();
  }
  for (; i < text.size(); ++i) {
    if (static_cast<signed char>(text[i]) <= 0) return false;
  }
  return (bad & kHigh) == 0;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto tail = [&](int shift) { *out += static_cast<char>(0x80 | ((code_point >> shift) & 0x3f)); };
  if (code_point < 0x80) {
    *out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    *out += static_cast<char>(0xc0 | (code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    *out += static_cast<char>(0xe0 | (code_point >> 12));
    tail(6);
    tail(0);
  } else {
    *out += static_cast<char>(0xf0 | (code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace weft
