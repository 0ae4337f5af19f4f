// Checks that an evaluation program measures the model that its training program trains (P13).
#ifndef WEFT_VERIFIER_EVALUATION_H_
#define WEFT_VERIFIER_EVALUATION_H_

#include "verifier/index.h"

namespace weft::verify {

// Checks that the evaluation program has the figures, tensors and ranks of the training program that contains it, and
// that their buffers do not conflict: evaluation overwrites no buffer that training keeps, and keeps none that training
// overwrites. Each program must be sound by itself.
void CheckEvaluation(const Program& program, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_EVALUATION_H_
