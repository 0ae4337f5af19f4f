// What lives while an action of a template runs: buffers (rule P7) and microbatches.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Both need the view's actions.
absl::Status AddMemory(const Program& program, TemplateView& view);
void AddHeldActivations(TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_
