// Finds the waits between actions that persistent buffers require. Persistent buffers never share bytes with other
// buffers (rule P7).
#ifndef WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_
#define WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_

#include <vector>

#include "compiler/memory/repetition_order.h"
#include "ir/rank_ops.h"

namespace weft {

// Requires that writes of a persistent buffer follow earlier uses, and reads follow earlier writes, also from one
// repetition to the next. `actions` are the actions of `order`. An action with detached steps is there twice; the
// second entry (`is_tail`) stands for the detached steps. A tail never waits: its action waits for what the tail needs.
// Tails are ordered among each other by their stream.
void RequirePersistentOrder(llvm::ArrayRef<mlir::Operation*> actions, const std::vector<bool>& is_tail,
                            RepetitionOrder* order);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_
