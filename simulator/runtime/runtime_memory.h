// What a framework's allocator takes of a device besides the planned bytes.
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_

#include <cstdint>

#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// fragmentation x planned bytes + copies by element + what persistent buffers are rounded up to + reserved_bytes, of
// the rank with the largest arena.
int64_t RuntimeBytes(const Program& program, const Runtime& runtime);

// Adds them to the report's device_bytes, which decide about `fits`.
void AddRuntimeBytes(const Program& program, const Runtime& runtime, SimulationReport* report);

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
