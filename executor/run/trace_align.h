// Sets the starts of transfers and all-reduces in a trace as rule P4 defines them.
#ifndef WEFT_EXECUTOR_RUN_TRACE_ALIGN_H_
#define WEFT_EXECUTOR_RUN_TRACE_ALIGN_H_

#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

// A rank can only record when it was ready for a transfer or an all-reduce and when the transfer or all-reduce ended.
// By rule P4 it starts when all partners are ready. Sets the start of every such event to the latest `ready_ps` of the
// events that belong together, kept within the event's own ready and end (clocks of different hosts differ).
void AlignStarts(const Program& program, Trace* trace);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_TRACE_ALIGN_H_
