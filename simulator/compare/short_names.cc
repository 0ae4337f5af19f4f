#include "simulator/compare/short_names.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/util/printable.h"

namespace weft::sim {
namespace {

// Returns where the last `count` characters of `text` begin; 0 if `text` has no more than `count` characters.
size_t BeginOfLast(absl::string_view text, size_t count) {
  size_t begin = text.size();
  while (begin > 0 && count > 0) {
    --begin;
    // In UTF-8, a byte that does not continue a character begins one.
    if ((text[begin] & 0xc0) != 0x80) --count;
  }
  return begin;
}

std::string Shortened(const std::string& name, size_t width) {
  if (BeginOfLast(name, width) == 0) return name;
  return absl::StrCat("…", absl::string_view(name).substr(BeginOfLast(name, width - 1)));
}

}  // namespace

std::vector<std::string> ShortNames(const std::vector<std::string>& names, size_t width) {
  std::vector<std::string> printable;
  size_t longest = width;
  for (const std::string& name : names) {
    printable.push_back(Printable(name));
    longest = std::max(longest, printable.back().size());
  }
  const size_t different = std::set<std::string>(printable.begin(), printable.end()).size();
  std::vector<std::string> shown(names.size());
  // At the longest width no name is cut.
  for (; width <= longest; ++width) {
    std::transform(printable.begin(), printable.end(), shown.begin(),
                   [&](const std::string& name) { return Shortened(name, width); });
    if (std::set<std::string>(shown.begin(), shown.end()).size() == different) break;
  }
  return shown;
}

}  // namespace weft::sim
