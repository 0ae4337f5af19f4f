// A slow second opinion that shares no code with the verifier: runs the expansion of a program on all ranks with random
// durations, as docs/program.md has it (P2 to P4), and looks for what the verifier says cannot happen.
#ifndef WEFT_VERIFIER_TESTING_BRUTE_FORCE_H_
#define WEFT_VERIFIER_TESTING_BRUTE_FORCE_H_

#include <cstdint>
#include <string>

#include "proto/program.pb.h"

namespace weft {

// Empty, or what went wrong: a deadlock, two accesses to the same bytes at one time, a read of bytes that were not
// written, a use outside of a buffer's lifetime, two live buffers on the same bytes. The program must have passed the
// verifier, so that its indices are in range.
std::string FindFault(const Program& program, int repetitions, uint64_t timing_seed);

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_BRUTE_FORCE_H_
