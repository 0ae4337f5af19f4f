// Random factors on the costs of compute steps (Noise.step_deviation). A factor depends only on its run and its step,
// so a run gives the same result however it is simulated (rule P12).
#ifndef WEFT_SIMULATOR_ENGINE_JITTER_H_
#define WEFT_SIMULATOR_ENGINE_JITTER_H_

#include <cstdint>

#include "simulator/engine/draw.h"

namespace weft::sim {

class Jitter {
 public:
  // Makes an object without jitter.
  constexpr Jitter() : Jitter(Draw(0), 0) {}

  // `run` is the node of a run in the tree of draws; `deviation` in [0, 1] is relative to the cost.
  constexpr Jitter(Draw run, double deviation) : run_(run), factor_(deviation), any_(deviation > 0) {}

  constexpr bool any() const { return any_; }

  // Returns the factor of one step of a rank in a repetition, in parts of FactorDraw::kOne. `action` is an Action.id.
  constexpr int64_t Factor(int64_t rank, int64_t repetition, int64_t action, int64_t step) const {
    return factor_(run_.At(rank).At(repetition).At(action).At(step));
  }

  // Returns `cost` times `factor`, rounded up, but at most 2^62. `cost` must be >= 0.
  static constexpr int64_t Scaled(int64_t cost, int64_t factor) {
    const __int128 scaled = (static_cast<__int128>(cost) * factor + FactorDraw::kOne - 1) / FactorDraw::kOne;
    return static_cast<int64_t>(scaled < (int64_t{1} << 62) ? scaled : int64_t{1} << 62);
  }

 private:
  Draw run_;
  FactorDraw factor_;
  bool any_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_JITTER_H_
