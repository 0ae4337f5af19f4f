#include "proto/validate/validate_loss_scale.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "proto/validate/field_check.h"

namespace weft {
namespace {

// The smallest loss scale. With a scale below this, or above kLargestLossScale, gradients in FP16 are zeros or
// infinities.
constexpr double kMinLossScale = 0x1p-60;

absl::Status CheckScale(absl::string_view path, double given, double least) {
  if (given == 0 || (given >= least && given <= kLargestLossScale)) return absl::OkStatus();
  return BadField(path, given,
                  absl::StrCat("from ", least, " to 2^60 = ", kLargestLossScale,
                               "; nearest: ", !(given >= least) ? least : kLargestLossScale));
}

}  // namespace

absl::Status ResolveLossScale(Plan* plan) {
  const LossScale& given = plan->loss_scale();
  WEFT_RETURN_IF_ERROR(CheckNotNegative("plan.loss_scale.fixed", given.fixed()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative("plan.loss_scale.initial", given.initial()));
  WEFT_RETURN_IF_ERROR(CheckScale("plan.loss_scale.fixed", given.fixed(), kMinLossScale));
  // A dynamic scale is never below 1.
  WEFT_RETURN_IF_ERROR(CheckScale("plan.loss_scale.initial", given.initial(), 1));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("plan.loss_scale.growth_interval", given.growth_interval(), 0));
  const char* dynamic = given.initial() != 0 ? "initial" : given.growth_interval() != 0 ? "growth_interval" : nullptr;
  if (given.fixed() != 0 && dynamic != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("plan.loss_scale.", dynamic,
                                                   " is given together with plan.loss_scale.fixed = ", given.fixed(),
                                                   "; a fixed scale does not grow; leave one of the two out"));
  }
  const Precision& precision = plan->precision();
  const bool half = precision.compute() == FP16 || precision.grads() == FP16;
  if (given.fixed() == 0 && !half) {
    if (dynamic != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan.loss_scale.", dynamic,
                       " needs FP16, because only FP16 uses a dynamic scale; plan.precision.compute is ",
                       std::string(DTypeName(precision.compute())), " and plan.precision.grads ",
                       std::string(DTypeName(precision.grads())), ": leave it out, or set plan.loss_scale.fixed"));
    }
    plan->clear_loss_scale();
    return absl::OkStatus();
  }
  if (given.fixed() != 0) return absl::OkStatus();
  LossScale& scale = *plan->mutable_loss_scale();
  if (scale.initial() == 0) scale.set_initial(kFirstLossScale);
  if (scale.growth_interval() == 0) scale.set_growth_interval(kGrowthInterval);
  return absl::OkStatus();
}

}  // namespace weft
