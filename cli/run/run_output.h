// Standard output of `weft run`.
#ifndef WEFT_CLI_RUN_RUN_OUTPUT_H_
#define WEFT_CLI_RUN_RUN_OUTPUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// Holds text back until nothing can be refused any more, so that a run that is refused prints nothing.
class RunOutput {
 public:
  void Write(absl::string_view text);
  // Call this when nothing can be refused any more. `met`: the ranks have met. If nobody reads the output from then on,
  // `stop_requested` becomes true, as after a signal. A stop before that would end the run before it has done anything.
  void Accept(bool met);
  // The first error of writing.
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  std::string waiting_;
  bool accepted_ = false, met_ = false;
};

}  // namespace weft

#endif  // WEFT_CLI_RUN_RUN_OUTPUT_H_
