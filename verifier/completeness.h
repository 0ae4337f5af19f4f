// Checks that a sound program is a complete training step (P9, P11, P13).
#ifndef WEFT_VERIFIER_COMPLETENESS_H_
#define WEFT_VERIFIER_COMPLETENESS_H_

#include <vector>

#include "verifier/index.h"
#include "verifier/matching.h"

namespace weft::verify {

// True if the program has anything that only training has.
bool IsTraining(const Program& program);

// Checks that each stage runs the forward (and backward) of each microbatch exactly once, on one rank of each pipeline,
// in order.
void CheckCompleteness(const Index& index, bool training, Findings* findings);

// Follows activations, gradients, norms and losses through one repetition of all roles, in `order`. For an asynchronous
// program, follows them through the prologue and two repetitions.
void CheckDataflow(const Index& index, const Matching& matching, const ListOrders& order, bool training,
                   Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_COMPLETENESS_H_
