#include "tests/accuracy/schedule_name.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace weft {

const ScheduleName* FindScheduleName(absl::string_view name) {
  static constexpr ScheduleName kNames[] = {
      {"none", "1f1b"},
      {"1f1binterleav", "interleaved", 2},
      {"1f1b", "1f1b"},
      {"noninterleav", "1f1b"},
      {"dapple", "1f1b"},
      {"pipedreamflush", "1f1b"},
      {"interleavedzb", "interleaved-zb", 2},
      {"interleav", "interleaved", 2},
      {"vpp", "interleaved", 2},
      {"virtualpipeline", "interleaved", 2},
      {"gpipe", "gpipe"},
      {"afab", "gpipe"},
      {"fthenb", "gpipe"},
      {"allforwardallbackward", "gpipe"},
      {"zb1p", "zb-h1"},
      {"zb2p", "zb-h2"},
      {"zbh1", "zb-h1"},
      {"zbh2", "zb-h2"},
      {"zbv", "zb-v", 2},
      {"vhalf", "v-half", 2},
      {"vmin", "v-min", 2},
      {"loopedbfs", "looped-bfs", 2},
      {"breadthfirst", "looped-bfs", 2},
      {"messagedriven", "axonn"},
      {"chimerawave", "chimera-wave"},
      {"chimera", "chimera"},
      {"hanayo", "hanayo"},
      {"gems", "gems"},
      {"eager1f1b", "eager-1f1b"},
  };
  std::string plain;
  for (const char c : name) {
    if (absl::ascii_isalnum(c)) plain.push_back(c);
  }
  for (const absl::string_view word : {"zerobubblez", "zerobubblev"}) {
    if (absl::StartsWith(plain, word)) plain = plain.substr(word.size() - 1);
  }
  // The authors of Zero Bubble abbreviate interleaved 1F1B as 1F1B-I.
  if (plain == "1f1bi") plain = "interleaved";
  const bool interleaves = absl::StrContains(plain, "interleav") && !absl::StrContains(plain, "noninterleav");
  if (absl::StartsWith(plain, "1f1b") && interleaves) plain = "interleaved";
  if (name.empty()) plain = "1f1b";
  for (const ScheduleName& known : kNames) {
    if (absl::StartsWith(plain, known.word)) return &known;
  }
  return nullptr;
}

}  // namespace weft
