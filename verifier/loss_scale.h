// Loss scaling (rule P11): who computes with the scale, and that it is updated once, behind all who read it. That it is
// undone once, the symbolic run shows (dataflow_step.cc).
#ifndef WEFT_VERIFIER_LOSS_SCALE_H_
#define WEFT_VERIFIER_LOSS_SCALE_H_

#include "proto/program.pb.h"
#include "verifier/index.h"

namespace weft::verify {

// Whether gradients are those of the loss times something: some NORM_TOTAL says so.
bool IsScaled(const Program& program);

// Whether the factor is in the buffer LOSS_SCALE: some NORM_TOTAL reads it.
bool IsDynamicallyScaled(const Program& program);

// Of a training program.
void CheckLossScale(const Index& index, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_LOSS_SCALE_H_
