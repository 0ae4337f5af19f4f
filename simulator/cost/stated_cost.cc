#include "simulator/cost/stated_cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "simulator/cost/device_load.h"
#include "simulator/cost/measured_rate.h"

namespace weft::sim {
absl::Status MissingFigure(const Step& step, absl::string_view field, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cluster.", field, " must be positive to cost step '", step.name(), "' (", why, ")"));
}

absl::StatusOr<double> PeakOf(const Step& step, const Device& device) {
  std::vector<absl::string_view> has;
  for (const Peak& row : device.peaks()) {
    if (!(row.flops_per_second() > 0)) continue;
    if (row.dtype() == step.work().dtype()) return row.flops_per_second();
    has.push_back(DTypeName(row.dtype()));
  }
  const absl::string_view name =
      device.name().empty() ? absl::string_view("the device") : absl::string_view(device.name());
  return absl::FailedPreconditionError(absl::StrCat(
      std::string(name), " has no peak for ", DTypeName(step.work().dtype()), ", which step '", step.name(), "' (",
      Kernel_Name(step.kernel()), ") needs; cluster.device.peaks has ", has.empty() ? "none" : absl::StrJoin(has, ", "),
      has.empty() ? "" : "; plan.precision.compute selects one"));
}

absl::StatusOr<std::optional<Time>> StatedCost(const Step& step, const StepShapes& shapes, const Cluster& cluster,
                                               int collectives) {
  const double flops = step.work().flops();
  const double bytes = step.work().bytes();
  if (step.stream() != COMPUTE) {
    const Link& host = cluster.host();
    if (bytes > 0 && !(host.bytes_per_second() > 0)) {
      return MissingFigure(step, "host.bytes_per_second", "the step copies between host and device");
    }
    const double transfer = bytes > 0 ? bytes / host.bytes_per_second() : 0;
    return FromSeconds(host.overhead_seconds() + transfer + host.latency_seconds());
  }
  const MeasuredRate rate = FindMeasuredRate(step, shapes.segment, cluster.device());
  if (rate.source == RateSource::kNone) return std::nullopt;
  const RemainingDevice left = RemainingBeside(cluster.device(), collectives);
  const double compute = rate.flops_per_second > 0 ? flops / (rate.flops_per_second * left.compute) : 0;
  const double memory = rate.bytes_per_second > 0 ? bytes / (rate.bytes_per_second * left.memory) : 0;
  return FromSeconds(rate.overhead_seconds + std::max(compute, memory));
}

}  // namespace weft::sim
