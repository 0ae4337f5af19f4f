// The figures of an optimizer step: where they are, and what they say (rule P11).
#ifndef WEFT_EXECUTOR_PROGRAM_PRINTED_FIGURES_H_
#define WEFT_EXECUTOR_PROGRAM_PRINTED_FIGURES_H_

#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "executor/interface/backend.h"
#include "executor/numerics/exact192.h"

namespace weft::exec {

// Bits: what a step completes.
enum Figure : uint8_t {
  kLossFigure = 1,
  kNormFigure = 2,
  kLossScaleFigure = 4,
  // NORM of a VALIDATE (rule P15).
  kVerdictFigure = 8,
};

// Empty and null where the rank has none.
struct Figures {
  // Those of all data coordinates in turn.
  absl::Span<const double> losses;
  // NORM: the norm, and the factor of the update. A rank that updates nothing has NORMS instead: the squares by tensor.
  absl::Span<const double> norm;
  TensorView norms;
  // A dynamic loss scale.
  const double* loss_scale = nullptr;
};

// Of step `step` of a repetition that takes `steps`: its microbatches follow one another on every data coordinate.
inline double LossOfStep(const Figures& figures, int64_t microbatches, int64_t steps, int64_t step) {
  double sum = 0;
  if (steps == 1) {
    for (const double loss : figures.losses) sum += loss;
    return sum;
  }
  const size_t all = microbatches, own = microbatches / steps;
  for (size_t first = step * own; first + own <= figures.losses.size(); first += all) {
    for (const double loss : figures.losses.subspan(first, own)) sum += loss;
  }
  return sum;
}

// Of a rank that updates nothing: from the squares by tensor, in ascending order.
inline double GradientNorm(const Figures& figures) {
  if (!figures.norm.empty()) return figures.norm[0];
  const TensorView& norms = figures.norms;
  double sum = 0;
  for (int64_t i = 0; i < norms.shape[0]; ++i) {
    sum += norms.dtype == EXACT192 ? ExactRound(static_cast<const Exact192*>(norms.data)[i], 53)
                                   : static_cast<const double*>(norms.data)[i];
  }
  return std::sqrt(sum);
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PRINTED_FIGURES_H_
