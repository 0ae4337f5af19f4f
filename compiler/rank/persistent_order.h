// Who waits for whom because of persistent buffers, which never share bytes with others (rule P7).
#ifndef WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_
#define WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_

#include <vector>

#include "compiler/memory/repetition_order.h"
#include "ir/rank_ops.h"

namespace weft {

// Requires writes of a persistent buffer after earlier uses and reads after earlier writes, around the repetition.
// `actions` are those of `order`; one with detached steps is there twice, the second time (`is_tail`) for these:
// nothing of theirs waits itself, their action does, and among each other they are ordered by their stream.
void RequirePersistentOrder(llvm::ArrayRef<mlir::Operation*> actions, const std::vector<bool>& is_tail,
                            RepetitionOrder* order);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_PERSISTENT_ORDER_H_
