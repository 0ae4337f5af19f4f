// What makes an evaluation program one that measures the model which its training program trains (P13).
#ifndef WEFT_PROTO_VERIFY_EVALUATION_H_
#define WEFT_PROTO_VERIFY_EVALUATION_H_

#include "proto/verify/index.h"

namespace weft::verify {

// The evaluation program has the figures, tensors and ranks of the training program that holds it, and works beside the
// buffers of that: it overwrites none that are kept, and keeps none that are overwritten. Each is sound by itself.
void CheckEvaluation(const Program& program, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_EVALUATION_H_
