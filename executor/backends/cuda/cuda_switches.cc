#include "executor/backends/cuda/cuda_switches.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec::cuda {

namespace {

absl::Status Set(absl::string_view variable, absl::string_view names, bool value, Switches& switches) {
  static constexpr std::pair<absl::string_view, bool Switches::*> kParts[] = {
      {"cudnn-attention", &Switches::cudnn_attention},
      {"cudnn-convolution", &Switches::cudnn_convolution},
      {"joined-launches", &Switches::joined_launches},
  };
  for (const absl::string_view word : absl::StrSplit(names, ',', absl::SkipWhitespace())) {
    const absl::string_view name = absl::StripAsciiWhitespace(word);
    bool Switches::* part = nullptr;
    std::vector<std::string> known;
    for (const auto& [known_name, field] : kParts) {
      known.emplace_back(known_name);
      if (name == known_name) part = field;
    }
    if (part == nullptr) {
      const std::string nearest = Nearest(name, known);
      return absl::InvalidArgumentError(
          absl::StrCat(variable, ": unknown part '", name, "'; allowed: ", absl::StrJoin(known, ", "),
                       nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?")));
    }
    switches.*part = value;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Switches> ParseSwitches(absl::string_view with, absl::string_view without) {
  Switches switches;
  WEFT_RETURN_IF_ERROR(Set("WEFT_CUDA_WITH", with, true, switches));
  WEFT_RETURN_IF_ERROR(Set("WEFT_CUDA_WITHOUT", without, false, switches));
  return switches;
}

}  // namespace weft::exec::cuda
