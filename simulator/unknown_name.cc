#include "simulator/unknown_name.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

// Longer names are cut: nothing known is that long, and the distance costs time in proportion.
constexpr size_t kLongestName = 64;

// Levenshtein distance, two rows at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Status UnknownNameError(absl::string_view what, absl::string_view given,
                              absl::Span<const absl::string_view> known) {
  const absl::string_view shown = given.substr(0, kLongestName);
  absl::string_view nearest;
  size_t best = 0;
  for (const absl::string_view name : known) {
    const size_t distance = EditDistance(shown, name);
    if (nearest.empty() || distance < best) {
      nearest = name;
      best = distance;
    }
  }
  return absl::NotFoundError(absl::StrCat("unknown ", what, " '", absl::Utf8SafeCHexEscape(shown),
                                          "'; nearest: ", nearest, "; known: ", absl::StrJoin(known, ", ")));
}

}  // namespace weft
