// Standard output of `weft run`.
#ifndef WEFT_CLI_RUN_RUN_OUTPUT_H_
#define WEFT_CLI_RUN_RUN_OUTPUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// Holds text back until the run can no longer be refused, so that a refused run prints nothing.
class RunOutput {
 public:
  void Write(absl::string_view text);
  // Call this when the run can no longer be refused. `met`: the ranks have met. If they have and nobody reads the
  // output from then on, `stop_requested` becomes true, as after a signal. A stop before the ranks meet would end the
  // run before it has done anything.
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
