// Makes text from outside (names of files, fields of files, messages with them) safe for one line of a terminal.
#ifndef WEFT_PROTO_UTIL_PRINTABLE_H_
#define WEFT_PROTO_UTIL_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// Returns `text` with everything spelled out that a terminal would obey, or show in another order than it is written.
// Control characters and bytes that are not UTF-8 become \xNN. Control characters beyond ASCII (C1), ends of lines and
// paragraphs, and marks, embeddings, overrides and isolates of direction (Unicode's Bidi_Control) become \uNNNN.
std::string Printable(absl::string_view text);

// The same line by line: the ends of lines stay.
std::string PrintableLines(absl::string_view text);

// Returns `text`. If it is longer than `most` bytes, returns its beginning and its end, together about `most` bytes,
// and between them how many bytes are left out. Cuts between characters.
std::string CutInMiddle(absl::string_view text, size_t most);

// A message as it goes to the terminal: Printable, and cut to a length that can be read.
std::string MessageLine(absl::string_view message);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_PRINTABLE_H_
