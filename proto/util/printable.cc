#include "proto/util/printable.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/util/utf8.h"

namespace weft {
namespace {

struct CodePoint {
  uint32_t value;
  size_t bytes;
};

// The first code point of `text`, which begins with a valid sequence of more than one byte.
CodePoint FirstOf(absl::string_view text) {
  const unsigned char first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  uint32_t value = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  return {value, bytes};
}

bool IsObeyed(uint32_t code_point) {
  return (code_point >= 0x80 && code_point < 0xa0) ||       // C1
         code_point == 0x61c ||                             // Arabic letter mark
         code_point == 0x200e || code_point == 0x200f ||    // marks
         (code_point >= 0x2028 && code_point <= 0x202e) ||  // ends of line and paragraph, embeddings, overrides
         (code_point >= 0x2066 && code_point <= 0x2069);    // isolates
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string out;
  size_t valid = FirstInvalidUtf8(text);
  for (size_t i = 0; i < text.size();) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    if (i == valid || byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
      if (i == valid) valid = i + 1 + FirstInvalidUtf8(text.substr(i + 1));
      ++i;
      continue;
    }
    const CodePoint next = byte < 0x80 ? CodePoint{byte, 1} : FirstOf(text.substr(i));
    if (IsObeyed(next.value)) {
      absl::StrAppendFormat(&out, "\\u%04x", next.value);
    } else {
      out.append(text.data() + i, next.bytes);
    }
    i += next.bytes;
  }
  return out;
}

std::string PrintableLines(absl::string_view text) {
  std::string out;
  for (size_t end = text.find('\n'); end != absl::string_view::npos; end = text.find('\n')) {
    absl::StrAppend(&out, Printable(text.substr(0, end)), "\n");
    text.remove_prefix(end + 1);
  }
  return out + Printable(text);
}

std::string CutInMiddle(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  // The beginning of a message usually states what is wrong, and its end states what to do.
  size_t begin = most / 3 * 2, end = text.size() - most / 3;
  while (begin > 0 && (text[begin] & 0xc0) == 0x80) --begin;
  while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
  return absl::StrCat(text.substr(0, begin), " ... (", end - begin, " bytes left out) ... ", text.substr(end));
}

std::string MessageLine(absl::string_view message) {
  constexpr size_t kMax = 4000;
  return CutInMiddle(Printable(message), kMax);
}

}  // namespace weft
