// Finds the actions of a post-validated program that run on weights that may be taken back (rule P15).
#ifndef WEFT_COMPILER_REWRITE_GUESS_H_
#define WEFT_COMPILER_REWRITE_GUESS_H_

#include <vector>

#include "proto/program.pb.h"

namespace weft {

// By template, by index in its body: true for the first forwards of each rank, and for the actions that rule P15
// requires with them. If all forwards take the same time, these forwards begin no later than the last rank begins. A
// rank that begins a step later also ends it later, so the norm of the previous step is known at about the time when
// the last rank begins. It arrives while a forward that begins then still runs.
std::vector<std::vector<bool>> GuessOf(const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GUESS_H_
