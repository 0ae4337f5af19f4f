// How much memory ranks need, and whether this machine has enough.
#ifndef WEFT_EXECUTOR_PROGRAM_ARENA_SIZE_H_
#define WEFT_EXECUTOR_PROGRAM_ARENA_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct ArenaSize {
  int64_t device = 0, host = 0;
};

// Returns the bytes of the rank's arena. If `evaluates`, the program must have an evaluation program. Evaluation uses
// the same arena, so each size is then the larger of the two programs' sizes.
ArenaSize ArenaOf(const Program& program, int64_t rank, bool evaluates);

// Checks that this machine has enough memory for its ranks. Without this check the system would end the run without a
// message.
//
// `on_host`: the device memory of the program is this machine's memory. Returns ResourceExhausted if the ranks do not
// fit. If not `on_host`, a device has its own memory, which is checked when it is allocated, and only the host's part
// of the arenas counts here. The driver pins that part, and only the driver can tell whether it fits. So a part that
// seems too large is no error: it is only reported in `note`. If it is larger than the memory that the system has left,
// none of its pages is touched before the driver pins it (host_pages.h).
absl::Status CheckMachineMemory(const Program& program, bool evaluates, bool on_host, int64_t first_rank, int64_t ranks,
                                std::string* note);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_ARENA_SIZE_H_
