// The programs that a post-validated one stands for (rule P15).
#ifndef WEFT_VERIFIER_PLAIN_PROGRAM_H_
#define WEFT_VERIFIER_PLAIN_PROGRAM_H_

#include "proto/program.pb.h"

namespace weft::verify {

// Whether anything is done again where the guess was wrong.
bool HasAgain(const Program& program);

// The plain program in which the guess stands for itself, or what is done again stands for it. Norm and clipping are
// before the OPTIMIZER_STEP and CLEAR_GRADIENTS behind it, so who waits for them sees those of the repetition before.
// Expects that CheckPostValidation found nothing.
Program PlainProgram(const Program& program, bool again);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_PLAIN_PROGRAM_H_
