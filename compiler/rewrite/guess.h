// Finds the guess: the actions of a post-validated program that run on weights that may be taken back (rule P15).
#ifndef WEFT_COMPILER_REWRITE_GUESS_H_
#define WEFT_COMPILER_REWRITE_GUESS_H_

#include <vector>

#include "proto/program.pb.h"

namespace weft {

// Returns, for each template and each action of its body, whether the action belongs to the guess. The guess holds the
// first forwards of each rank, and the actions that rule P15 requires with them. A rank's first forwards are those that
// begin no later than the last rank begins, if all forwards take the same time. The reason: a rank that begins a step
// later also ends it later. So the norm of the previous step is known at about the time when the last rank begins,
// while the forwards that begin then still run.
std::vector<std::vector<bool>> GuessOf(const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GUESS_H_
