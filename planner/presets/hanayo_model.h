// The model of Liu et al. 2023 (Hanayo, arXiv:2308.15762), sec. 3.4, equation 1: the share of a pipeline's time that
// its ranks are idle.
#ifndef WEFT_PLANNER_PRESETS_HANAYO_MODEL_H_
#define WEFT_PLANNER_PRESETS_HANAYO_MODEL_H_

#include <cstdint>

namespace weft::planner {

// All times are in the same unit.
struct HanayoTimes {
  // T_F and T_B: a forward and a backward of all layers of a rank.
  double forward = 0;
  double backward = 0;
  // T_C: one message.
  double message = 0;
};

// Returns the idle share for `ranks` = P >= 2 and `waves` = W >= 1. With T_B = 2 T_F and T_C = 0, it is (2P - 2) / (3PW
// + P - 1).
inline double HanayoBubbleRatio(int64_t ranks, int64_t waves, const HanayoTimes& times) {
  const auto p = static_cast<double>(ranks), w = static_cast<double>(waves);
  const double idle = times.backward / w + (1 + 2 * w + 2 / p + (p - 2) / 3) * times.message;
  const double all = p / (p - 1) * times.forward + (1 / (2 * w) + p / (p - 1)) * times.backward +
                     ((p - 2) / 2 + 4 * w) * times.message;
  return idle / all;
}

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PRESETS_HANAYO_MODEL_H_
