// Which steps an asynchronous device must hold back for steps of other streams (rule P2). Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_
#define WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_

#include "executor/program/prepared_program.h"

namespace weft::exec {

// Sets `event` and `waits` of all steps, and step_events of the program. Steps on one stream need none: a device runs
// its stream in order. Nor do those of different lists: a list is run when the one before is over.
void PrepareWaits(PreparedProgram& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STEP_WAITS_H_
