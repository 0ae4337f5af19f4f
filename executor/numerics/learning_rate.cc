#include "executor/numerics/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"

namespace weft::exec {

//   warm-up   step < warmup_steps:  peak * (step + 1) / warmup_steps
//   stable    the next stable_steps: peak
//   after it  f = (step - begin) / (steps - 1 - begin), begin = warmup_steps + stable_steps, at most 1:
//             constant  peak
//             linear    peak + (min - peak) * f
//             cosine    min + (peak - min) * (1 + cos(pi f)) / 2
// The first step of the decay has `peak`, and the recipe's last step has `min`. Steps beyond the recipe's last
// step keep its rate.
double LearningRateAt(const Recipe& recipe, int64_t step) {
  const LearningRate& lr = recipe.lr();
  const double peak = lr.has_peak() ? lr.peak() : 3e-4;
  const int64_t warmup = std::max<int64_t>(0, lr.warmup_steps());
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t stable = std::max<int64_t>(0, lr.stable_steps());
  if (lr.decay().empty() || lr.decay() == "constant" || step - warmup < stable) return peak;
  const int64_t length = std::max<int64_t>(1, recipe.steps()) - 1 - warmup - stable, decayed = step - warmup - stable;
  const double f = length <= 0 ? (decayed > 0 ? 1.0 : 0.0)
                               : std::min(1.0, static_cast<double>(decayed) / static_cast<double>(length));
  if (lr.decay() == "linear") return peak + (lr.min() - peak) * f;
  return lr.min() + (peak - lr.min()) * (1 + std::cos(std::numbers::pi * f)) / 2;
}

std::string NoteOnSteps(const Recipe& recipe, int64_t steps) {
  const std::string& decay = recipe.lr().decay();
  const int64_t recipes = std::max<int64_t>(1, recipe.steps());
  if (steps <= recipes || decay.empty() || decay == "constant") return "";
  return absl::StrFormat(
      "note: --steps %d is more than the recipe's %d, where the learning rate's %s decay ends; after that it stays at "
      "its minimum, %g; to decay over all steps, compile with recipe.steps: %d",
      steps, recipes, decay, recipe.lr().min(), steps);
}

}  // namespace weft::exec
