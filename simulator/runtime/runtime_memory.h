// The device memory that a framework's allocator takes beyond the planned bytes.
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns by how much the bytes of the rank that needs most exceed the largest arena. Beyond its arena, a rank needs
// the framework's own tensors (with those of held_activations.h), fragmentation x all tensors, the rounding of
// persistent buffers, and reserved_bytes.
int64_t RuntimeBytes(const Program& program, const Runtime& runtime);

// Returns how many of these bytes are tensors. A framework counts tensors as allocated, and the other bytes as
// reserved.
int64_t RuntimeTensorBytes(const Program& program, const Runtime& runtime);

// Returns, for each template, the bytes of a rank: its device arena and everything else, at most 2^62.
std::vector<int64_t> BytesOfTemplatesUnder(const Program& program, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
