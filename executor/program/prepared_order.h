// Finds what the lists of a prepared program do not say: which transfers start together, and which actions in two
// compute queues wait for each other. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PREPARED_ORDER_H_
#define WEFT_EXECUTOR_PROGRAM_PREPARED_ORDER_H_

#include "executor/program/prepared_program.h"

namespace weft::exec {

// Rule P4: neighboring transfers of a list that have the same transfer_group (not 0) become a PreparedGroup.
void GroupTransfers(PreparedProgram& program);

// Rule P6, for message-driven programs: an action in both queues starts when all backwards before it have ended, and
// the backwards after it start when it has ended. The steps of such actions are in the queue of the forwards.
void OrderQueues(PreparedProgram& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PREPARED_ORDER_H_
