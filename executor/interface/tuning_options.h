// --tuning: how algorithms of matrix products are chosen where a library has several.
#ifndef WEFT_EXECUTOR_INTERFACE_TUNING_OPTIONS_H_
#define WEFT_EXECUTOR_INTERFACE_TUNING_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

// `off` takes what the library's heuristics name first, which is the same on every run; `write` measures the best of
// what they name, once for each shape, and keeps the fastest in a file; `read` takes them from there, and what the file
// does not hold as `off`.
struct TuningOptions {
  enum class Mode { kOff, kWrite, kRead };
  Mode mode = Mode::kOff;
  std::string path;

  // The file that is written, and the one that is read; empty if none is.
  std::string written() const { return mode == Mode::kWrite ? path : ""; }
  std::string read() const { return mode == Mode::kRead ? path : ""; }
};

// "off", "write FILE" or "read FILE"; a colon may stand for the space. InvalidArgument names what is allowed.
absl::StatusOr<TuningOptions> ParseTuningOptions(absl::string_view text);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_TUNING_OPTIONS_H_
