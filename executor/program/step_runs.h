// Steps that a backend may run as one (Backend::PrepareRun), found by proto/util/step_runs.h. Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_STEP_RUNS_H_
#define WEFT_EXECUTOR_PROGRAM_STEP_RUNS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/program/prepared_program.h"
#include "proto/util/step_runs.h"

namespace weft::exec {

// The action's steps as they are placed on this rank.
std::vector<PlacedStep> PlacedStepsOf(const PreparedAction& action);

// Makes the backend prepare the runs of all actions, and marks their steps.
absl::StatusOr<std::vector<std::unique_ptr<StepRun>>> PrepareStepRuns(PreparedProgram& program, Backend& backend);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STEP_RUNS_H_
