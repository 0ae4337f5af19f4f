// `weft calibrate`, which runs inside weft-run.
#ifndef WEFT_CLI_RUN_CALIBRATE_H_
#define WEFT_CLI_RUN_CALIBRATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace weft {

absl::Status CalibrateCommand(absl::Span<const std::string> args);

}  // namespace weft

#endif  // WEFT_CLI_RUN_CALIBRATE_H_
