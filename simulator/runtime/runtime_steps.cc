#include "simulator/runtime/runtime_steps.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/cost/device_load.h"
#include "simulator/cost/step_shapes.h"
#include "simulator/runtime/kernel_form.h"

namespace weft::sim {
namespace {

constexpr int64_t kLongest = int64_t{1} << 62;

double FactorOf(double stated) { return stated > 0 ? stated : 1; }

int64_t Scaled(int64_t value, double factor) {
  return static_cast<int64_t>(std::min(static_cast<double>(value) * factor, 0x1p62));
}

}  // namespace

bool RuntimeSteps::Joins(const Device& device) const {
  const int from = runtime_.joins_from_compute_capability();
  return from > 0 && device.compute_capability() >= from;
}

absl::StatusOr<Time> RuntimeSteps::LaunchCost(const Segment& of, const Step& step, const Use& use,
                                              const Cluster& cluster, const CostOptions& options) const {
  if (!IsWeightCast(step)) return KernelCost(of, step, use, cluster, options);
  const KernelForm* product = CastForm(cluster.device());
  if (product == nullptr) return Time{};
  Step own = step;
  own.mutable_work()->set_bytes(WeightCastBytes(of, step, product->factor_bytes()));
  return KernelCost(of, own, use, cluster, options);
}

absl::StatusOr<Time> RuntimeSteps::KernelCost(const Segment& of, const Step& step, const Use& use,
                                              const Cluster& cluster, const CostOptions& options) const {
  const StepShapes shapes = ShapesOf(of, step);
  const KernelForm* form = FormOf(runtime_, step.kernel(), cluster.device().compute_capability());
  if (form == nullptr || step.stream() != COMPUTE) return cost_(step, shapes, use.kind, use.index, cluster, options);
  Time time;
  if (FactorOf(form->bytes()) == 1) {
    WEFT_ASSIGN_OR_RETURN(time, cost_(step, shapes, use.kind, use.index, cluster, options));
  } else {
    Step moved = step;
    moved.mutable_work()->set_bytes(Scaled(step.work().bytes(), FactorOf(form->bytes())));
    WEFT_ASSIGN_OR_RETURN(time, cost_(moved, shapes, use.kind, use.index, cluster, options));
  }
  const double launches = cluster.device().launch_seconds() * (std::max(1, form->launches()) - 1);
  const double factor = IsOfLoss(*form, use) ? form->loss_time() : FactorOf(form->time());
  time = Time{Scaled(time.ps, factor) + FromSeconds(launches).ps};
  if (shapes.rows < 1) return time;
  WEFT_ASSIGN_OR_RETURN(const Time casts, CastsOf(shapes, *form, step, use, cluster, options));
  return Time{time.ps + std::min(casts.ps, kLongest - time.ps)};
}

const KernelForm* RuntimeSteps::CastForm(const Device& device) const {
  const KernelForm* product = FormOf(runtime_, MATMUL, device.compute_capability());
  return product != nullptr && product->weights_cast_once() ? product : nullptr;
}

bool RuntimeSteps::IsOfLoss(const KernelForm& form, const Use& use) const {
  return form.loss_time() > 0 && loss_products_.count({use.segment, use.step}) > 0;
}

bool RuntimeSteps::IsCast(const KernelForm& form, const Use& use, int input) const {
  if (!(form.factor_bytes() > 0) || IsOfLoss(form, use)) return false;
  return !form.weights_cast_once() || kept_weights_.count({use.segment, use.step, input}) == 0;
}

int RuntimeSteps::Launches(const KernelForm* form, const Use& use) const {
  if (form == nullptr) return 1;
  return std::max(1, form->launches()) + IsCast(*form, use, 0) + IsCast(*form, use, 1);
}

absl::StatusOr<Time> RuntimeSteps::CastsOf(const StepShapes& product, const KernelForm& form, const Step& step,
                                           const Use& use, const Cluster& cluster, const CostOptions& options) const {
  Time sum;
  const int64_t extents[] = {product.rows, product.columns};
  const bool in_parts = GatheredBytes(runtime_, cluster.device().compute_capability()) != 1;
  for (int input = 0; input < 2; ++input) {
    if (!IsCast(form, use, input)) continue;
    double elements = static_cast<double>(extents[input]) * static_cast<double>(product.depth);
    if (in_parts && gathered_factors_.count({use.segment, use.step, input}) > 0) {
      elements /= static_cast<double>(LayerRanks());
    }
    Step cast;
    cast.set_name(step.name());
    cast.set_kernel(CAST);
    cast.mutable_work()->set_dtype(step.work().dtype());
    cast.mutable_work()->set_bytes(static_cast<int64_t>(std::min(elements * form.factor_bytes(), 0x1p62)));
    WEFT_ASSIGN_OR_RETURN(const Time time, cost_(cast, {}, use.kind, use.index, cluster, options));
    sum.ps += std::min(time.ps, kLongest - sum.ps);
  }
  return sum;
}

int64_t RuntimeSteps::LayerRanks() const { return AxisSize(program_.mesh(), "x"); }

absl::StatusOr<Time> RuntimeSteps::OnDevice(const Use& use, const Cluster& cluster, const CostOptions& options) const {
  const Segment& of = program_.segments(use.segment);
  const StepRange* range = use.ranges == nullptr ? nullptr : RangeOf(*use.ranges, use.step);
  if (range == nullptr) return LaunchCost(of, of.steps(use.step), use, cluster, options);
  Time sum;
  if (use.step != range->first) return sum;
  for (const std::vector<int>& launch : range->launches) {
    WEFT_ASSIGN_OR_RETURN(const Time time, LaunchCost(of, AsOneStep(of, launch), use, cluster, options));
    sum.ps += std::min(time.ps, kLongest - sum.ps);
  }
  return sum;
}

absl::StatusOr<double> RuntimeSteps::HostShare(const Use& use, const Cluster& cluster, const CostOptions& options) {
  if (!(runtime_.host().launch_seconds() > 0)) return 1.0;
  const auto [found, is_new] = host_shares_.try_emplace({use.segment, use.kind, use.ranges, &cluster}, 1.0);
  if (!is_new) return found->second;
  CostOptions alone = options;
  alone.collectives = 0;
  const Segment& of = program_.segments(use.segment);
  const auto launches_of = [&](const Step& step, const Use& own) {
    return Launches(FormOf(runtime_, step.kernel(), cluster.device().compute_capability()), own);
  };
  double device = 0, launches = 0;
  int index = 0;
  for (int i = 0; i < of.steps_size(); ++i) {
    if (of.steps(i).stream() != COMPUTE) continue;
    Use own = use;
    own.step = i;
    own.index = index++;
    if (IsWeightCast(of.steps(i)) && CastForm(cluster.device()) == nullptr) continue;
    WEFT_ASSIGN_OR_RETURN(const Time time, OnDevice(own, cluster, alone));
    device += ToSeconds(time);
    const StepRange* range = use.ranges == nullptr ? nullptr : RangeOf(*use.ranges, i);
    if (range == nullptr) {
      launches += launches_of(of.steps(i), own);
    } else if (range->first == i) {
      for (const std::vector<int>& launch : range->launches) launches += launches_of(AsOneStep(of, launch), own);
    }
  }
  if (device > 0) found->second = std::max(1.0, launches * runtime_.host().launch_seconds() / device);
  return found->second;
}

absl::StatusOr<double> RuntimeSteps::CopySeconds(int segment, const Cluster& cluster) const {
  const auto found = message_bytes_.find(segment);
  if (found == message_bytes_.end() || found->second == 0) return 0.0;
  const double link = cluster.host().bytes_per_second();
  if (!(link > 0)) {
    return absl::FailedPreconditionError(absl::StrCat("cluster.host.bytes_per_second must be positive: runtime '",
                                                      runtime_.name(),
                                                      "' sends through host memory (runtime.host_transport)"));
  }
  return static_cast<double>(found->second) / link;
}

bool RuntimeSteps::LoadMatters(const Device& device) const {
  return !runtime_.has_host_transport() && CollectivesTakePart(device);
}

absl::StatusOr<Time> RuntimeSteps::Cost(const Use& use, const Cluster& cluster, const CostOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Time time, OnDevice(use, cluster, options));
  if (program_.segments(use.segment).steps(use.step).stream() != COMPUTE) return time;
  WEFT_ASSIGN_OR_RETURN(const double share, HostShare(use, cluster, options));
  if (share > 1) {
    // Collectives may slow down the device, but they do not increase the time of the host.
    CostOptions alone = options;
    alone.collectives = 0;
    WEFT_ASSIGN_OR_RETURN(const Time own, OnDevice(use, cluster, alone));
    time.ps = std::max(time.ps, Scaled(own.ps, share));
  }
  // The wait is added to the first step, even if that step itself takes no time.
  if (use.index != 0) return time;
  double wait = 0;
  switch (use.kind) {
    case FORWARD:
    case BACKWARD:
    case BACKWARD_INPUT:
    case FORWARD_BACKWARD: {
      WEFT_ASSIGN_OR_RETURN(wait, CopySeconds(use.segment, cluster));
      wait += (use.kind == FORWARD_BACKWARD ? 2 : 1) * runtime_.host().microbatch_seconds();
      break;
    }
    case OPTIMIZER_STEP:
      wait = runtime_.host().step_seconds();
      break;
    default:
      break;
  }
  return Time{time.ps + FromSeconds(wait).ps};
}

}  // namespace weft::sim
