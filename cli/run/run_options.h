// Makes the options of a run from its command line.
#ifndef WEFT_CLI_RUN_RUN_OPTIONS_H_
#define WEFT_CLI_RUN_RUN_OPTIONS_H_

#include "absl/status/statusor.h"
#include "cli/common/flags.h"
#include "cli/run/run_flags.h"
#include "executor/interface/backend.h"
#include "executor/interpreter/deadlines.h"
#include "executor/run/run.h"
#include "proto/program.pb.h"

namespace weft {

// Returns the options that follow from the flags alone. `stop` is stop_requested. InvalidArgument if --tuning is given
// to a backend that has nothing to tune.
absl::StatusOr<exec::RunOptions> OptionsOf(const Flags& flags, const RunFlags& f, const exec::BackendEntry& backend);

// Returns the times of --predicted, or else of a simulation on --cluster (PredictRun).
absl::StatusOr<exec::PredictedTimes> PredictTimes(const Program& program, const RunFlags& f);

}  // namespace weft

#endif  // WEFT_CLI_RUN_RUN_OPTIONS_H_
