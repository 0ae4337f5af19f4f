#include "simulator/runtime/runtime_memory.h"

#include <algorithm>

namespace weft {
namespace {

constexpr int64_t kMost = int64_t{1} << 62;

int64_t Rounding(const Template& t, int64_t block) {
  int64_t bytes = 0;
  if (block <= 1) return 0;
  for (const Buffer& buffer : t.buffers()) {
    if (!buffer.persistent() || buffer.place() != DEVICE || buffer.bytes() <= 0) continue;
    bytes = std::min(kMost, bytes + (block - buffer.bytes() % block) % block);
  }
  return bytes;
}

}  // namespace

int64_t RuntimeBytes(const Program& program, const Runtime& runtime) {
  const RuntimeMemory& memory = runtime.memory();
  const Template* largest = nullptr;
  for (const Template& t : program.templates()) {
    if (largest == nullptr || t.device_arena_bytes() > largest->device_arena_bytes()) largest = &t;
  }
  if (largest == nullptr) return memory.reserved_bytes();
  const double unusable = memory.fragmentation() * static_cast<double>(largest->device_arena_bytes());
  return std::min(kMost, static_cast<int64_t>(unusable) + Rounding(*largest, memory.block_bytes())) +
         memory.reserved_bytes();
}

void AddRuntimeBytes(const Program& program, const Runtime& runtime, SimulationReport* report) {
  const int64_t bytes = RuntimeBytes(program, runtime);
  report->set_device_bytes(report->device_bytes() > kMost - bytes ? kMost : report->device_bytes() + bytes);
  report->set_fits(report->fits() && report->device_bytes() <= report->capacity_bytes());
}

}  // namespace weft
