// What lives while an action of a template runs: buffers (rule P7) and microbatches.
#ifndef WEFT_SIMULATOR_VIEW_MEMORY_H_
#define WEFT_SIMULATOR_VIEW_MEMORY_H_

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "simulator/program_view.h"

namespace weft {

// Both need the view's actions.
absl::Status AddMemory(const Program& program, TemplateView& view);
void AddHeldActivations(TemplateView& view);

}  // namespace weft

#endif  // WEFT_SIMULATOR_VIEW_MEMORY_H_
