// The memory of one rank: allocated once, zeroed, planned by the compiler.
#ifndef WEFT_EXECUTOR_PROGRAM_ARENA_H_
#define WEFT_EXECUTOR_PROGRAM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "executor/interface/device.h"
#include "proto/program.pb.h"

namespace weft::exec {

class Arena {
 public:
  // Allocates on `device`, which must outlive the arena and which frees the memory. ResourceExhausted if the memory is
  // not available.
  static absl::StatusOr<std::unique_ptr<Arena>> Allocate(ComputeDevice* device, int64_t device_bytes,
                                                         int64_t host_bytes) {
    std::unique_ptr<Arena> arena(new Arena(device));
    const std::pair<Place, int64_t> sizes[2] = {{DEVICE, device_bytes}, {HOST, host_bytes}};
    for (const auto& [place, bytes] : sizes) {
      // A rank that needs no memory in this place gets none.
      if (bytes <= 0) continue;
      const absl::StatusOr<void*> memory = device->Allocate(place, bytes);
      if (!memory.ok()) {
        return absl::Status(memory.status().code(),
                            absl::StrCat("cannot allocate the arena of ", bytes, " bytes",
                                         place == HOST ? " of host memory: " : ": ", memory.status().message()));
      }
      arena->memory_[place == HOST] = static_cast<std::byte*>(*memory);
      arena->bytes_[place == HOST] = bytes;
    }
    return arena;
  }
  // Allocates on a host device that the arena makes and owns.
  static absl::StatusOr<std::unique_ptr<Arena>> Allocate(int64_t device_bytes, int64_t host_bytes) {
    std::unique_ptr<ComputeDevice> host = MakeHostDevice();
    absl::StatusOr<std::unique_ptr<Arena>> arena = Allocate(host.get(), device_bytes, host_bytes);
    if (arena.ok()) (*arena)->own_device_ = std::move(host);
    return arena;
  }

  ComputeDevice& device() const { return *device_; }
  // Bytes of the arena in this place.
  int64_t bytes(Place place) const { return bytes_[place == HOST]; }
  // Address of the arena's device memory; null if it has none.
  std::byte* device_memory() const { return memory_[0]; }
  // Returns the address of a buffer. The host must not access an address in a device's own memory, except by copies
  // (ComputeDevice::CopyNow).
  std::byte* Data(const Buffer& buffer) const { return memory_[buffer.place() == HOST] + buffer.offset(); }

 private:
  explicit Arena(ComputeDevice* device) : device_(device) {}

  ComputeDevice* device_;
  std::unique_ptr<ComputeDevice> own_device_;
  std::byte* memory_[2] = {nullptr, nullptr};
  int64_t bytes_[2] = {0, 0};
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_ARENA_H_
