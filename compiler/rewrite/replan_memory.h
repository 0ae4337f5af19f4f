// Places the transient buffers of a compiled template again after some of them have changed.
#ifndef WEFT_COMPILER_REWRITE_REPLAN_MEMORY_H_
#define WEFT_COMPILER_REWRITE_REPLAN_MEMORY_H_

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft {

// Places the transient buffers of `t` again. Lifetimes follow from the order of streams and the waits in the list (rule
// P7); no waits are added. A lifetime is a range of compute actions: those that may run while the buffer is live. Two
// buffers share bytes only if their ranges do not overlap, as in weft-plan-memory. Persistent buffers keep their
// places. `program` must have a static order of compute actions.
absl::Status ReplanTransients(const Program& program, Template* t);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_REPLAN_MEMORY_H_
