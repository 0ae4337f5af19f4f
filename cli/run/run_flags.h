// The command line of `weft run`, as it was given.
#ifndef WEFT_CLI_RUN_RUN_FLAGS_H_
#define WEFT_CLI_RUN_RUN_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/common/flags.h"
#include "executor/interpreter/interpreter.h"

namespace weft {

struct RunFlags {
  std::string data, eval_data, token_type, report, trace;
  std::string backend = "auto", transport = "auto", bootstrap = "auto", format = "text";
  std::string tuning = "off";
  std::vector<std::string> lib_path;
  int64_t eval_every = 0, eval_batches = 16, threads = 1, slots = 0, steps = 0, checkpoint_every = 0, keep = 2;
  int64_t trace_steps = 4;
  double timeout = 300;
  std::string checkpoint, weights, save_weights;
  bool resume = false;
  int64_t resume_step = 0;
  std::string fail_at, fault_report, predicted, cluster;
  int64_t check_replicas = 0;
};

void DeclareRunFlags(Flags& flags, RunFlags& f);

// Call this after Parse. Returns a UsageError if flags contradict each other or if a flag needs another one that is not
// given. Sets the values of flags that other flags imply.
absl::Status CheckRunFlags(const Flags& flags, RunFlags& f);

// Returns NotFound if one of --lib-path is not a folder of this machine.
absl::Status CheckLibraryPath(const std::vector<std::string>& folders);

// Parses --inject-failure. Returns a UsageError if it cannot be parsed. The run checks whether the rank exists and has
// the action.
absl::StatusOr<exec::InjectedFailure> ParseFailure(const std::string& text);

}  // namespace weft

#endif  // WEFT_CLI_RUN_RUN_FLAGS_H_
