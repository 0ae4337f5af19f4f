// Loss scaling (rule P11). Checks which steps compute with the scale, and that it is updated once, after all its
// readers. The symbolic run checks that the scale is divided out of the gradients once (dataflow_step.cc).
#ifndef WEFT_VERIFIER_LOSS_SCALE_H_
#define WEFT_VERIFIER_LOSS_SCALE_H_

#include "proto/program.pb.h"
#include "verifier/index.h"

namespace weft::verify {

// True if gradients belong to the loss multiplied by a factor. This is the case if some NORM_TOTAL states or reads a
// scale.
bool IsScaled(const Program& program);

// True if the factor is in the buffer LOSS_SCALE, which is the case if some NORM_TOTAL reads it.
bool IsDynamicallyScaled(const Program& program);

// Checks the loss scale of a training program.
void CheckLossScale(const Index& index, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_LOSS_SCALE_H_
