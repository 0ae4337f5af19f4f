// Which actions of a post-validated program run on weights that may be taken back (rule P15).
#ifndef WEFT_COMPILER_REWRITE_GUESS_H_
#define WEFT_COMPILER_REWRITE_GUESS_H_

#include <vector>

#include "proto/program.pb.h"

namespace weft {

// By template, by index in its body. On each rank the first forwards: those that begin, if every forward takes as long
// as any other, at most one after the last rank has begun. Ranks end a step at different times if they begin it at
// different times, so this is when the norm is known, and one forward more for its way. Closed as rule P15 wants it.
std::vector<std::vector<bool>> GuessOf(const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_GUESS_H_
