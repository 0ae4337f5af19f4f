#include "proto/util/suggest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/printable.h"

namespace weft {

int EditDistance(absl::string_view a, absl::string_view b) {
  constexpr size_t kLimit = 128;
  const std::string x = absl::AsciiStrToLower(a.substr(0, kLimit));
  const std::string y = absl::AsciiStrToLower(b.substr(0, kLimit));
  const int columns = static_cast<int>(y.size()) + 1;
  // Computes the optimal string alignment. The vectors are rows i-2, i-1 and i of the usual table.
  std::vector<int> before(columns), previous(columns), row(columns);
  for (int j = 0; j < columns; ++j) row[j] = j;
  for (int i = 1; i <= static_cast<int>(x.size()); ++i) {
    before.swap(previous);
    previous.swap(row);
    row[0] = i;
    for (int j = 1; j < columns; ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (x[i - 1] != y[j - 1])});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[columns - 1];
}

std::string Nearest(absl::string_view name, absl::Span<const std::string> candidates) {
  // A name with at least this many letters may be an unfinished name rather than a typing error.
  constexpr size_t kBegun = 3;
  std::string best;
  bool best_begun = false;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    // In an unfinished name all letters are right, no matter how many are missing. Otherwise, a name with more than
    // half of its letters wrong is another word, not a typing error.
    const bool begun = name.size() >= kBegun && absl::StartsWithIgnoreCase(candidate, name);
    if (!begun && 2 * distance > static_cast<int>(std::max(name.size(), candidate.size()))) continue;
    if (best.empty() || begun > best_begun || (begun == best_begun && distance < best_distance)) {
      best = candidate;
      best_begun = begun;
      best_distance = distance;
    }
  }
  return best;
}

std::string NameHelp(absl::string_view name, absl::Span<const std::string> candidates) {
  const std::string nearest = Nearest(name, candidates);
  return absl::StrCat(nearest.empty() ? "" : absl::StrCat("; nearest: '", nearest, "'"),
                      candidates.empty() ? "" : absl::StrCat("; known: ", absl::StrJoin(candidates, ", ")));
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kLimit = 80;
  if (text.size() <= kLimit) return absl::StrCat("'", Printable(text), "'");
  // Do not cut within a character of several bytes. Bytes that are not characters may be cut anywhere.
  size_t end = kLimit;
  while (end > kLimit - 3 && (text[end] & 0xc0) == 0x80) --end;
  return absl::StrCat("'", Printable(text.substr(0, end)), "…'");
}

}  // namespace weft
