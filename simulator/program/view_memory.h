// Finds which buffers (rule P7) and microbatches are live while an action of a template runs.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// Both functions need the actions of `view` to be filled in.
absl::Status AddMemory(const Program& program, TemplateView& view);
void AddHeldActivations(TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_MEMORY_H_
