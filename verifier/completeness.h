// What makes a sound program a training step (P9, P11, P13).
#ifndef WEFT_VERIFIER_COMPLETENESS_H_
#define WEFT_VERIFIER_COMPLETENESS_H_

#include <vector>

#include "verifier/index.h"
#include "verifier/matching.h"

namespace weft::verify {

// Whether the program has anything that only training has.
bool IsTraining(const Program& program);

// Each stage sees each microbatch forward (and backward) exactly once, on one rank of each pipeline, in order.
void CheckCompleteness(const Index& index, bool training, Findings* findings);

// Follows activations, gradients, norms and losses through one repetition of all roles, in `order`; of an asynchronous
// program through the prologue and two.
void CheckDataflow(const Index& index, const Matching& matching, const ListOrders& order, bool training,
                   Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_COMPLETENESS_H_
