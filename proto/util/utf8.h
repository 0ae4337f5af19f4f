// UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#ifndef WEFT_PROTO_UTIL_UTF8_H_
#define WEFT_PROTO_UTIL_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// Offset of the first byte that does not belong to a valid sequence; text.size() if all are valid.
size_t FirstInvalidUtf8(absl::string_view text);

inline bool IsValidUtf8(absl::string_view text) { return FirstInvalidUtf8(text) == text.size(); }

// True if all bytes are ASCII and none is NUL, which is fast to check and holds for most texts.
bool IsAsciiText(absl::string_view text);

// Appends a code point, which must not be a surrogate and must be at most U+10FFFF.
void AppendUtf8(uint32_t code_point, std::string* out);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_UTF8_H_
