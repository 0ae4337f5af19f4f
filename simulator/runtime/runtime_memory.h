// What a framework's allocator takes of a device besides the planned bytes.
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Of the rank that needs most, beside the largest arena: tensors of the framework's own, held_activations.h among them,
// + fragmentation x all of them + what persistent buffers are rounded up to + reserved_bytes.
int64_t RuntimeBytes(const Program& program, const Runtime& runtime);

// Of these, the tensors: what a framework counts as allocated, where the others are reserved.
int64_t RuntimeTensorBytes(const Program& program, const Runtime& runtime);

// By template, its device arena and all that a rank of it takes besides, at most 2^62.
std::vector<int64_t> BytesOfTemplatesUnder(const Program& program, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
