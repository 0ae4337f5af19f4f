// The live buffers (rule P7) and live microbatches while an action of a template runs.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// For both, `view` must have its actions.
absl::Status AddMemory(const Program& program, TemplateView& view);
void AddHeldActivations(TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_
