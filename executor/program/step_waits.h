// Finds the steps that must wait for steps of other streams on an asynchronous device (rule P2). Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_
#define WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_

#include "executor/program/prepared_program.h"

namespace weft::exec {

// Sets `event` and `waits` of all steps, and step_events of the program. Steps of one stream do not wait for each
// other, because a device runs its stream in order. Steps of different lists do not either, because a list runs only
// after the previous list has finished.
void PrepareWaits(PreparedProgram& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_
