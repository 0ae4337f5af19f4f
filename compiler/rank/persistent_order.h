// Finds the waits that persistent buffers require between actions. Persistent buffers never share bytes with other
// buffers (rule P7).
#ifndef WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_
#define WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_

#include <vector>

#include "compiler/memory/repetition_order.h"
#include "ir/rank_ops.h"

namespace weft {

// Adds requirements to `order`: a write of a persistent buffer follows all earlier uses, and a read follows all earlier
// writes, also from one repetition to the next. `actions` are the actions of `order`. An action with detached steps
// appears twice; its second entry (`is_tail`), the tail, stands for the detached steps. A tail never waits: its action
// waits for what the tail needs. The stream of the tails orders them among each other.
void RequirePersistentOrder(llvm::ArrayRef<mlir::Operation*> actions, const std::vector<bool>& is_tail,
                            RepetitionOrder* order);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_
