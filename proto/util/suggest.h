// Help for unknown names: suggests the known name that was probably meant.
#ifndef WEFT_PROTO_UTIL_SUGGEST_H_
#define WEFT_PROTO_UTIL_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// The number of insertions, deletions, replacements and swaps of neighbors that turn `a` into `b`, ignoring case. Only
// the first 128 bytes of each are compared, so that hostile names stay cheap.
int EditDistance(absl::string_view a, absl::string_view b);

// Returns the nearest candidate. A candidate that begins with `name` (three letters or more) comes first, then the one
// with the smallest distance (the first of several). Returns "" if no candidate is so near that `name` may be a typing
// error.
std::string Nearest(absl::string_view name, absl::Span<const std::string> candidates);

// Returns the text to append to an error such as "unknown schedule '1fib'": "; nearest: '1f1b'; known: 1f1b, gpipe".
// Names keep their order.
std::string NameHelp(absl::string_view name, absl::Span<const std::string> candidates);

// Returns `text` in single quotes and made Printable (printable.h), so that it is safe on one line. Shows at most the
// first 80 bytes, and whole characters.
std::string Quoted(absl::string_view text);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_SUGGEST_H_
