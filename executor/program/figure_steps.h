// Finds the steps of a rank's program that complete the printed figures (rules P11, P15). Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_FIGURE_STEPS_H_
#define WEFT_EXECUTOR_PROGRAM_FIGURE_STEPS_H_

#include "absl/status/status.h"
#include "executor/program/arena.h"
#include "executor/program/prepared_program.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Sets `figures` of `prepared` and of its steps, and fixed_loss_scale. The actions must already have their steps.
absl::Status MarkFigures(const Program& program, int rank, const Arena& arena, PreparedProgram& prepared);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_FIGURE_STEPS_H_
