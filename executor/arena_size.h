// How much memory ranks need, and whether this machine has it.
#ifndef WEFT_EXECUTOR_ARENA_SIZE_H_
#define WEFT_EXECUTOR_ARENA_SIZE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft {

struct ArenaSize {
  int64_t device = 0, host = 0;
};

// Evaluation works on the memory of training. A program that evaluates has an evaluation program.
ArenaSize ArenaOf(const Program& program, int64_t rank, bool evaluates);

// The ranks of this process must fit this machine, or the system would end the run without a word.
absl::Status CheckMachineMemory(const Program& program, bool evaluates, int64_t first_rank, int64_t ranks);

}  // namespace weft

#endif  // WEFT_EXECUTOR_ARENA_SIZE_H_
