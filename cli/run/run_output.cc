#include "cli/run/run_output.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/common/terminal.h"
#include "cli/run/stop_signals.h"

namespace weft {

void RunOutput::Write(absl::string_view text) {
  absl::StrAppend(&waiting_, text);
  if (!accepted_) return;
  if (status_.ok()) status_ = Print(std::exchange(waiting_, ""));
  if (!status_.ok() && met_) stop_requested = true;
}

void RunOutput::Accept(bool met) {
  accepted_ = true;
  met_ = met;
  Write("");
}

}  // namespace weft
