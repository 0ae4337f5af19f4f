// How much memory ranks need, and whether this machine has it.
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

// Evaluation works on the memory of training. A program that evaluates has an evaluation program.
ArenaSize ArenaOf(const Program& program, int64_t rank, bool evaluates);

// Ranks that are on this machine must fit it, or the system would end the run without a word. `on_host`: what a program
// calls memory of the device is this machine's; else it is a device's of its own, which is asked when it is taken. Then
// the host's part is pinned by the device's driver, and whether it can be is the driver's to say: nothing of it is
// touched before that where it is more than the system has left (host_pages.h). So what seems too much is told in
// `note` alone.
absl::Status CheckMachineMemory(const Program& program, bool evaluates, bool on_host, int64_t first_rank, int64_t ranks,
                                std::string* note);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_ARENA_SIZE_H_
