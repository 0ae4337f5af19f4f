// Steps that a backend may run as one (Backend::PrepareRun): at the end of an optimizer step there are several for
// every tensor, most of them too small to fill a device. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_STEP_RUNS_H_
#define WEFT_EXECUTOR_STEP_RUNS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/prepared_program.h"

namespace weft {

struct StepRange {
  int first = 0;
  int count = 0;

  friend bool operator==(const StepRange&, const StepRange&) = default;
};

// The longest runs of two steps or more: neighbours of one kernel on the compute stream, none of which waits for a step
// of another stream, writes what another one of the run touches, or but for the last is waited for on another stream.
std::vector<StepRange> FindStepRuns(const PreparedAction& action);

// Has the backend prepare the runs of all actions that are not of a microbatch, and marks their steps.
absl::StatusOr<std::vector<std::unique_ptr<StepRun>>> PrepareStepRuns(PreparedProgram& program, Backend& backend);

}  // namespace weft

#endif  // WEFT_EXECUTOR_STEP_RUNS_H_
