#include "executor/interface/tuning_options.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weft::exec {

absl::StatusOr<TuningOptions> ParseTuningOptions(absl::string_view text) {
  TuningOptions options;
  if (text == "off") return options;
  for (const auto& [word, mode] :
       {std::pair{absl::string_view("write"), TuningOptions::Mode::kWrite}, {"read", TuningOptions::Mode::kRead}}) {
    absl::string_view rest = text;
    if (absl::StartsWith(rest, word)) {
      rest.remove_prefix(word.size());
      if (rest.size() > 1 && (rest[0] == ' ' || rest[0] == ':')) {
        options.mode = mode;
        options.path = std::string(rest.substr(1));
        return options;
      }
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--tuning is '", text, "'; allowed: off, 'write FILE', 'read FILE' (or write:FILE, read:FILE)"));
}

}  // namespace weft::exec
