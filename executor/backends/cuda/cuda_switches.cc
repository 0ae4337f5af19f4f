#include "executor/backends/cuda/cuda_switches.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/util/suggest.h"

namespace weft::exec::cuda {

absl::StatusOr<Switches> ParseSwitches(absl::string_view without) {
  static constexpr std::pair<absl::string_view, bool Switches::*> kParts[] = {
      {"cudnn-attention", &Switches::cudnn_attention},
      {"cudnn-convolution", &Switches::cudnn_convolution},
      {"joined-launches", &Switches::joined_launches},
  };
  Switches switches;
  for (const absl::string_view word : absl::StrSplit(without, ',', absl::SkipWhitespace())) {
    const absl::string_view name = absl::StripAsciiWhitespace(word);
    bool Switches::*part = nullptr;
    std::vector<std::string> known;
    for (const auto& [known_name, field] : kParts) {
      known.emplace_back(known_name);
      if (name == known_name) part = field;
    }
    if (part == nullptr) {
      const std::string nearest = Nearest(name, known);
      return absl::InvalidArgumentError(
          absl::StrCat("WEFT_CUDA_WITHOUT: unknown part '", name, "'; allowed: ", absl::StrJoin(known, ", "),
                       nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?")));
    }
    switches.*part = false;
  }
  return switches;
}

}  // namespace weft::exec::cuda
