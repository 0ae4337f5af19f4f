// The figures of an optimizer step, read from the buffers of a rank (rule P11).
#ifndef WEFT_EXECUTOR_PRINTED_FIGURES_H_
#define WEFT_EXECUTOR_PRINTED_FIGURES_H_

#include <cmath>
#include <cstdint>

#include "executor/exact192.h"
#include "executor/prepared_program.h"

namespace weft {

// Of step `step` of a repetition that takes `steps`: its microbatches follow one another on every data coordinate.
inline double LossOfStep(const PreparedProgram& program, int64_t microbatches, int64_t steps, int64_t step) {
  double sum = 0;
  if (steps == 1) {
    for (const double loss : program.losses) sum += loss;
    return sum;
  }
  const size_t all = microbatches, own = microbatches / steps;
  for (size_t first = step * own; first + own <= program.losses.size(); first += all) {
    for (const double loss : program.losses.subspan(first, own)) sum += loss;
  }
  return sum;
}

// Of a rank that updates nothing: from the squares by tensor, in ascending order.
inline double GradientNorm(const PreparedProgram& program) {
  if (program.norm != nullptr) return *program.norm;
  const TensorView& norms = program.norms;
  double sum = 0;
  for (int64_t i = 0; i < norms.shape[0]; ++i) {
    sum += norms.dtype == EXACT192 ? ExactRound(static_cast<const Exact192*>(norms.data)[i], 53)
                                   : static_cast<const double*>(norms.data)[i];
  }
  return std::sqrt(sum);
}

}  // namespace weft

#endif  // WEFT_EXECUTOR_PRINTED_FIGURES_H_
