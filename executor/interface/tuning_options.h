// --tuning: how the algorithms of matrix products are chosen where a library has several.
#ifndef WEFT_EXECUTOR_INTERFACE_TUNING_OPTIONS_H_
#define WEFT_EXECUTOR_INTERFACE_TUNING_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

// `off` takes the algorithm that the library's heuristics list first, which is the same on every run. `write` measures
// the best of the listed algorithms, once for each shape, and keeps the fastest in a file. `read` takes the algorithms
// from that file; for shapes that the file lacks, it works like `off`.
struct TuningOptions {
  enum class Mode { kOff, kWrite, kRead };
  Mode mode = Mode::kOff;
  std::string path;

  // The file that is written, and the file that is read; empty if there is none.
  std::string written() const { return mode == Mode::kWrite ? path : ""; }
  std::string read() const { return mode == Mode::kRead ? path : ""; }
};

// Parses "off", "write FILE" or "read FILE"; a colon may replace the space. The InvalidArgument error names what is
// allowed.
absl::StatusOr<TuningOptions> ParseTuningOptions(absl::string_view text);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_TUNING_OPTIONS_H_
