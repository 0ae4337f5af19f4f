// Validates the loss scaling of a plan: its ranges, its defaults, and what it cannot be combined with (rule P11).
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_LOSS_SCALE_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_LOSS_SCALE_H_

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace weft {

inline constexpr double kFirstLossScale = 65536;
inline constexpr int kGrowthInterval = 2000;
// The largest loss scale. A dynamic scale does not grow beyond it.
inline constexpr double kLargestLossScale = 0x1p60;

// Expects a plan whose precision is resolved. Afterwards `loss_scale` has `fixed`, or has `initial` and
// `growth_interval` (a dynamic scale), or is absent (no scale).
absl::Status ResolveLossScale(Plan* plan);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_LOSS_SCALE_H_
