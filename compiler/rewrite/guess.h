// Finds the actions of a post-validated program that run on weights that may be taken back (rule P15).
#ifndef WEFT_COMPILER_REWRITE_GUESS_H_
#define WEFT_COMPILER_REWRITE_GUESS_H_

#include <vector>

#include "proto/program.pb.h"

namespace weft {

// By template, by index in its body: true for the first forwards of each rank. These are the forwards that begin no
// later than the last rank begins, if all forwards take the same time. Ranks that begin a step at different times end
// it at different times, so the norm is known at about that time; a forward that begins then leaves it time to arrive.
// The set is closed as rule P15 requires.
std::vector<std::vector<bool>> GuessOf(const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GUESS_H_
