// Text from outside, as it may be shown on one line of a terminal: names of files, fields of files, messages with them.
#ifndef WEFT_PROTO_UTIL_PRINTABLE_H_
#define WEFT_PROTO_UTIL_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// `text` with what a terminal would obey, or show in another order than it stands in, spelt out: control characters and
// bytes that are not UTF-8 as \xNN; control characters beyond ASCII (C1), ends of lines and paragraphs, and marks,
// embeddings, overrides and isolates of direction (Unicode's Bidi_Control) as \uNNNN.
std::string Printable(absl::string_view text);

// The same line by line: ends of lines stay.
std::string PrintableLines(absl::string_view text);

// `text`, or of a longer one than `most` bytes about as many: its beginning and its end, and between them how many are
// left out. What is cut is cut between characters.
std::string CutInMiddle(absl::string_view text, size_t most);

// A message as it goes to the terminal: Printable, and no more of it than can be read.
std::string MessageLine(absl::string_view message);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_PRINTABLE_H_
