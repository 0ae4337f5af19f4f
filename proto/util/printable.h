// Makes text from outside (names of files, fields of files, messages with them) safe for one line of a terminal.
#ifndef WEFT_PROTO_UTIL_PRINTABLE_H_
#define WEFT_PROTO_UTIL_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// Returns `text`, but spells out all characters that a terminal would obey or that would change the displayed order.
// Control characters and bytes that are not UTF-8 become \xNN. Control characters beyond ASCII (C1), ends of lines and
// paragraphs, and marks, embeddings, overrides and isolates of direction (Unicode's Bidi_Control) become \uNNNN.
std::string Printable(absl::string_view text);

// Applies Printable to each line and keeps the line ends.
std::string PrintableLines(absl::string_view text);

// Returns `text`. If it is longer than `most` bytes, returns its beginning and its end, together about `most` bytes,
// and between them the number of bytes left out. Cuts only between characters.
std::string CutInMiddle(absl::string_view text, size_t most);

// Prepares a message for the terminal: makes it Printable and cuts it to a readable length.
std::string MessageLine(absl::string_view message);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_PRINTABLE_H_
