#include "proto/validate/validate_plan_parallel.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/field_check.h"

namespace weft {
namespace {

// The most bytes that an arena may have; the verifier sets this limit.
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kMaxCount = int64_t{1} << 20;

// Returns "plan.zero.group = 3 must be a divisor of the 8 ranks of mesh axis data; nearest: 2 or 4".
absl::Status CheckDivides(absl::string_view path, int64_t given, int64_t size, absl::string_view axis) {
  if (size % given == 0) return absl::OkStatus();
  int64_t below = given, above = given;
  while (size % below != 0) --below;
  while (above < size && size % above != 0) ++above;
  return BadField(path, given,
                  absl::StrCat("a divisor of the ", size, " ranks of mesh axis ", axis, "; nearest: ", below,
                               above > size || size % above != 0 ? std::string() : absl::StrCat(" or ", above)));
}

absl::Status ValidateKeptLayers(const Zero& zero) {
  if (zero.kept_layers_size() > 0 && zero.reshard() != Zero::LAYERS) {
    return absl::InvalidArgumentError(absl::StrCat("plan.zero.kept_layers is given, but plan.zero.reshard is ",
                                                   Zero::Reshard_Name(zero.reshard()), "; it needs LAYERS"));
  }
  if (zero.kept_layers_size() == 0 && zero.reshard() == Zero::LAYERS) {
    return absl::InvalidArgumentError(
        "plan.zero.kept_layers is empty; plan.zero.reshard = LAYERS needs the layers, e.g. [1, 2]");
  }
  for (int i = 0; i < zero.kept_layers_size(); ++i) {
    const std::string path = absl::StrCat("plan.zero.kept_layers[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckAtLeast(path, zero.kept_layers(i), 0));
    if (i > 0 && zero.kept_layers(i) <= zero.kept_layers(i - 1)) {
      return BadField(path, zero.kept_layers(i),
                      absl::StrCat("greater than the one before, ", zero.kept_layers(i - 1)));
    }
  }
  return absl::OkStatus();
}

// Checks when parameters are gathered and how long they stay. Only stage 3 gathers them.
absl::Status ValidateGathers(const Zero& zero, const Overlap& overlap) {
  if (!Zero::Reshard_IsValid(zero.reshard())) {
    return BadField("plan.zero.reshard", static_cast<int>(zero.reshard()),
                    "AFTER_FORWARD, AFTER_BACKWARD, NEVER, LAYERS or BY_BENEFIT");
  }
  if (zero.stage() != 3 && (zero.reshard() != Zero::AFTER_FORWARD || zero.has_prefetch())) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.zero.",
                     zero.has_prefetch() ? absl::StrCat("prefetch = ", zero.prefetch())
                                         : absl::StrCat("reshard = ", Zero::Reshard_Name(zero.reshard())),
                     " is given, but plan.zero.stage is ", zero.stage(), "; it needs stage 3"));
  }
  WEFT_RETURN_IF_ERROR(ValidateKeptLayers(zero));
  if (!zero.has_prefetch()) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(CheckWithin("plan.zero.prefetch", zero.prefetch(), 0, kMaxCount));
  if (zero.prefetch() == 0 || !overlap.has_all_gather() || overlap.all_gather()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "plan.zero.prefetch = ", zero.prefetch(),
      " gathers layers ahead, but plan.overlap.all_gather is false; leave one of the two out, or set prefetch to 0"));
}

absl::Status ValidateZero(const Plan& plan) {
  const Zero& zero = plan.zero();
  WEFT_RETURN_IF_ERROR(CheckWithin("plan.zero.stage", zero.stage(), 0, 3));
  WEFT_RETURN_IF_ERROR(ValidateGathers(zero, plan.overlap()));
  if (zero.group() == 0) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(CheckAtLeast("plan.zero.group", zero.group(), 0));
  if (zero.stage() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("plan.zero.group = ", zero.group(),
                                                   " is given, but plan.zero.stage is 0; it needs stage 1, 2 or 3"));
  }
  const int64_t data = AxisSize(plan.mesh(), "data");
  if (zero.group() > data) {
    return BadField("plan.zero.group", zero.group(), absl::StrCat("at most the ", data, " ranks of mesh axis data"));
  }
  return CheckDivides("plan.zero.group", zero.group(), data, "data");
}

absl::Status ValidateOffload(const Offload& offload) {
  WEFT_RETURN_IF_ERROR(CheckWithin("plan.offload.bucket_elements", offload.bucket_elements(), 0, kMaxBytes / 8));
  WEFT_RETURN_IF_ERROR(CheckWithin("plan.offload.buckets_per_reduce", offload.buckets_per_reduce(), 0, kMaxCount));
  WEFT_RETURN_IF_ERROR(CheckWithin("plan.offload.activation_layers", offload.activation_layers(), 0, kMaxCount));
  const char* needless = offload.bucket_elements() != 0      ? "bucket_elements"
                         : offload.buckets_per_reduce() != 0 ? "buckets_per_reduce"
                                                             : nullptr;
  if (offload.optimizer() || needless == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan.offload.", needless, " is given, but plan.offload.optimizer is false; it needs true"));
}

}  // namespace

absl::Status ValidateParallelism(const Plan& plan) {
  const int64_t x = AxisSize(plan.mesh(), "x"), y = AxisSize(plan.mesh(), "y");
  if (plan.sequence_parallel() && (x == 1 || y > 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.sequence_parallel = true needs mesh axis x of at least 2 and axis y of 1; x is ", x,
                     ", y is ", y, x == 1 && y > 1 ? "; rename axis y to x" : ""));
  }
  WEFT_RETURN_IF_ERROR(ValidateZero(plan));
  WEFT_RETURN_IF_ERROR(
      CheckWithin("plan.overlap.gathered_cache_bytes", plan.overlap().gathered_cache_bytes(), 0, kMaxBytes));
  WEFT_RETURN_IF_ERROR(ValidateOffload(plan.offload()));
  if (!AttentionForm_IsValid(plan.attention())) {
    return BadField("plan.attention", static_cast<int>(plan.attention()), "FUSED or MATERIALIZED");
  }
  if (plan.recompute().mode() == Recompute::SELECTIVE && plan.attention() != MATERIALIZED) {
    return absl::InvalidArgumentError(
        "plan.recompute.mode = SELECTIVE needs plan.attention = MATERIALIZED, because FUSED saves no scores that could "
        "be recomputed");
  }
  return absl::OkStatus();
}

}  // namespace weft
