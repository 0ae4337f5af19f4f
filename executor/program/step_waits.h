// Finds the steps that an asynchronous device must hold back for steps of other streams (rule P2). Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_
#define WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_

#include "executor/program/prepared_program.h"

namespace weft::exec {

// Sets `event` and `waits` of all steps, and step_events of the program. Steps on one stream need no events, because a
// device runs its stream in order. Steps of different lists need none either, because a list runs when the previous one
// is over.
void PrepareWaits(PreparedProgram& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_
