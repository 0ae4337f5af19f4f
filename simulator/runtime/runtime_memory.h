// The device memory that a framework's allocator takes beyond the planned bytes.
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/runtime/held_activations.h"

namespace weft::sim {

// Returns by how much the bytes of the rank that needs most exceed the largest arena. Beyond its arena, a rank needs
// the framework's own tensors (with those of held_activations.h), fragmentation x all tensors, the rounding of
// persistent buffers, and reserved_bytes.
int64_t RuntimeBytes(const Program& program, const Runtime& runtime);

// Returns how many of these bytes are tensors. A framework counts tensors as allocated, and the other bytes as
// reserved.
int64_t RuntimeTensorBytes(const Program& program, const Runtime& runtime);

// Figures from which a framework's bytes on a rank follow (docs/runtimes.md, "How does a runtime change memory?").
// Every figure grows linearly with the layers of the rank, so the figures for two sizes give the figures for a third.
struct FrameworkBytes {
  double planned = 0;
  double persistent = 0;
  // Workspace and kept tensors beyond the planned bytes: in forwards and backwards, and in the optimizer step (if
  // `updates`). `passes` may be negative.
  double passes = 0;
  double update = 0;
  bool updates = false;
  HeldPeaks held;
  // The pipeline is empty at the optimizer step, so the whole arena except persistent buffers is free.
  bool drained = true;
  // Bytes that the allocator adds to persistent buffers by rounding them up to blocks.
  double rounding = 0;
};
FrameworkBytes FrameworkBytesOf(const Program& program, const Template& t, const Runtime& runtime);

// Returns the bytes of such a rank, at most 2^62.
int64_t BytesUnder(const FrameworkBytes& bytes, const Runtime& runtime);

// Returns how many bytes less than planned a rank of the template takes at most, because its framework works in tiles:
// the sum of the negative workspaces of kernels.
int64_t TiledBytes(const Program& program, const Template& t, const Runtime& runtime);

// Returns, for each template, the bytes of a rank: its device arena and everything else, at most 2^62.
std::vector<int64_t> BytesOfTemplatesUnder(const Program& program, const Runtime& runtime);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_MEMORY_H_
