// The memory of one rank: allocated once, zeroed, planned by the compiler.
#ifndef WEFT_EXECUTOR_ARENA_H_
#define WEFT_EXECUTOR_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/program.pb.h"

namespace weft {

class Arena {
 public:
  // ResourceExhausted if the memory is not to be had. Every page is touched here, none for the first time in a step.
  static absl::StatusOr<std::unique_ptr<Arena>> Allocate(int64_t device_bytes, int64_t host_bytes) {
    std::unique_ptr<Arena> arena(new Arena);
    const int64_t sizes[2] = {device_bytes, host_bytes};
    for (int place = 0; place < 2; ++place) {
      // To the byte what was planned.
      if (sizes[place] <= 0) continue;
      void* memory = nullptr;
      if (posix_memalign(&memory, kPage, static_cast<size_t>(sizes[place])) != 0) {
        return absl::ResourceExhaustedError(absl::StrCat("cannot allocate an arena of ", sizes[place], " bytes"));
      }
      arena->memory_[place].reset(static_cast<std::byte*>(memory));
      std::memset(memory, 0, static_cast<size_t>(sizes[place]));
    }
    return arena;
  }

  std::byte* Data(const Buffer& buffer) const { return memory_[buffer.place() == HOST].get() + buffer.offset(); }

 private:
  static constexpr int64_t kPage = 4096;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_[2];
};

}  // namespace weft

#endif  // WEFT_EXECUTOR_ARENA_H_
