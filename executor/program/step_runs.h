// Prepares runs: ranges of steps in which a backend may run several steps as one launch (Backend::PrepareRun).
// proto/util/step_runs.h finds them. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_STEP_RUNS_H_
#define WEFT_EXECUTOR_PROGRAM_STEP_RUNS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/program/prepared_program.h"
#include "proto/util/step_runs.h"

namespace weft::exec {

// Returns the action's steps with the memory that they use on this rank.
std::vector<PlacedStep> PlacedStepsOf(const PreparedAction& action);

// Has the backend prepare the runs of all actions, and marks the steps of each run in `program`.
absl::StatusOr<std::vector<std::unique_ptr<StepRun>>> PrepareStepRuns(PreparedProgram& program, Backend& backend);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STEP_RUNS_H_
