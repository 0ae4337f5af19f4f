// The figures that are printed for an optimizer step: where they are in memory, and how the loss and the norm are
// computed from them (rule P11).
#ifndef WEFT_EXECUTOR_PROGRAM_PRINTED_FIGURES_H_
#define WEFT_EXECUTOR_PROGRAM_PRINTED_FIGURES_H_

#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "executor/interface/backend.h"
#include "executor/numerics/exact192.h"

namespace weft::exec {

// Bits of PreparedStep::figures. They state which figures a step completes.
enum Figure : uint8_t {
  kLossFigure = 1,
  kNormFigure = 2,
  kLossScaleFigure = 4,
  // The norm that a VALIDATE computes (rule P15).
  kVerdictFigure = 8,
};

// Where the figures are in the arena. A figure that the rank does not have is empty or null.
struct Figures {
  // One loss per microbatch, for all data coordinates, one coordinate after another.
  absl::Span<const double> losses;
  // `norm` is the buffer NORM: the norm, and the factor of the update. A rank that updates nothing has `norms` instead,
  // the buffer NORMS: the square of each tensor's norm.
  absl::Span<const double> norm;
  TensorView norms;
  // Null if the loss scale is not dynamic.
  const double* loss_scale = nullptr;
};

// Returns the loss of step `step` in a repetition of `steps` steps. On every data coordinate, the microbatches of one
// step are consecutive.
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

// Returns the norm of the gradients. A rank that updates nothing adds the squares of the tensors' norms, in ascending
// order of the tensors.
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
