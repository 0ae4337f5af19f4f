// The device memory that a framework's allocator takes beyond the planned bytes.
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns the bytes beyond the largest arena, of the rank that needs most. They are the tensors of the framework's own,
// with those of held_activations.h, + fragmentation x all tensors + the rounding of persistent buffers +
// reserved_bytes.
int64_t RuntimeBytes(const Program& program, const Runtime& runtime);

// Returns the tensors among these bytes. A framework counts them as allocated, and the other bytes as reserved.
int64_t RuntimeTensorBytes(const Program& program, const Runtime& runtime);

// Returns, by template, its device arena and all other bytes of a rank, at most 2^62.
std::vector<int64_t> BytesOfTemplatesUnder(const Program& program, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
