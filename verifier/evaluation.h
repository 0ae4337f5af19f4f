// What makes an evaluation program one that measures the model which its training program trains (P13).
#ifndef WEFT_VERIFIER_EVALUATION_H_
#define WEFT_VERIFIER_EVALUATION_H_

#include "verifier/index.h"

namespace weft::verify {

// The evaluation program has the figures, tensors and ranks of the training program that holds it, and works beside the
// buffers of that: it overwrites none that are kept, and keeps none that are overwritten. Each is sound by itself.
void CheckEvaluation(const Program& program, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_EVALUATION_H_
