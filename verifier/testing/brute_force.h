// A slow independent check that shares no code with the verifier. It runs the expansion of a program on all ranks with
// random durations, by the rules of docs/program.md (P2 to P4), and looks for faults that the verifier excludes.
#ifndef WEFT_VERIFIER_TESTING_BRUTE_FORCE_H_
#define WEFT_VERIFIER_TESTING_BRUTE_FORCE_H_

#include <cstdint>
#include <string>

#include "proto/program.pb.h"

namespace weft {

// Returns "", or the fault: a deadlock, two accesses to the same bytes at one time, a read of bytes that were not
// written, a use outside of a buffer's lifetime, two live buffers on the same bytes. The program must have passed the
// verifier, so that its indices are in range.
std::string FindFault(const Program& program, int repetitions, uint64_t timing_seed);

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_BRUTE_FORCE_H_
