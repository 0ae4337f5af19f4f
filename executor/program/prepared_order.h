// Which steps of a prepared program start together or after one another beyond what the lists say. Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PREPARED_ORDER_H_
#define WEFT_EXECUTOR_PROGRAM_PREPARED_ORDER_H_

#include "executor/program/prepared_program.h"

namespace weft::exec {

// Rule P4: neighbouring transfers of a list that have the same transfer_group (not 0) become a PreparedGroup.
void GroupTransfers(PreparedProgram& program);

// Rule P6, of a message-driven program: what is in both queues starts when all backwards before it have ended, and
// backwards after it when it has. Such steps stand in the queue of the forwards.
void OrderQueues(PreparedProgram& program);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PREPARED_ORDER_H_
