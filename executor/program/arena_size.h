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

// Evaluation uses the memory of training. A program that evaluates has an evaluation program.
ArenaSize ArenaOf(const Program& program, int64_t rank, bool evaluates);

// Checks that the ranks on this machine fit its memory; otherwise the system would end the run without a message.
// `on_host`: the device memory of the program is this machine's memory. Then ResourceExhausted if the ranks do not fit.
// Otherwise a device has its own memory, which is checked when it is allocated, and its driver pins the host's part.
// Only the driver knows whether it can. No page of the host's part is touched before that if it is more than the system
// has left (host_pages.h). A host's part that seems too large is therefore only reported in `note`.
absl::Status CheckMachineMemory(const Program& program, bool evaluates, bool on_host, int64_t first_rank, int64_t ranks,
                                std::string* note);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_ARENA_SIZE_H_
