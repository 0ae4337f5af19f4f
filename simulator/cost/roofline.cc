// The "roofline" cost model.
//
//   compute stream:  launch + max(flops / (peak(dtype) * matmul_efficiency(flops)),
//                                 bytes / (memory_bytes_per_second * memory_efficiency(bytes)))
//   with a row of device.kernel_rates for (kernel, work.dtype):
//                    overhead + max(flops / flops_per_second, bytes / bytes_per_second), a zero rate = no term
//   d2h, h2d:        host.overhead + bytes / host.bytes_per_second + host.latency
//
// Of a table's rows the last whose lower edge is at most the step's work applies; below the first edge, the first row:
// what is known of the smallest measured size is nearer to the truth than the full peak.
// Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "simulator/cost/cost_model.h"

namespace weft {
namespace {

absl::Status Missing(const Step& step, absl::string_view field, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cluster.", field, " must be positive to cost step '", step.name(), "' (", why, ")"));
}

double Fraction(const google::protobuf::RepeatedPtrField<Efficiency>& rows, double work) {
  if (rows.empty()) return 1;
  double fraction = rows[0].fraction();
  for (const Efficiency& row : rows) {
    if (row.from() <= work) fraction = row.fraction();
  }
  return fraction;
}

// The row of device.kernel_rates that applies, or null.
const KernelRate* FindRate(const Step& step, const Device& device) {
  const KernelRate* found = nullptr;
  for (const KernelRate& rate : device.kernel_rates()) {
    if (rate.dtype() != step.work().dtype() || rate.kernel() != Kernel_Name(step.kernel())) continue;
    const double work = rate.flops_per_second() > 0 ? step.work().flops() : step.work().bytes();
    if (found == nullptr || rate.from_work() <= work) found = &rate;
  }
  return found;
}

absl::StatusOr<Time> CopyCost(const Step& step, const Cluster& cluster) {
  const double bytes = step.work().bytes();
  const Link& host = cluster.host();
  if (bytes > 0 && !(host.bytes_per_second() > 0)) {
    return Missing(step, "host.bytes_per_second", "it copies between host and device");
  }
  const double transfer = bytes > 0 ? bytes / host.bytes_per_second() : 0;
  return FromSeconds(host.overhead_seconds() + transfer + host.latency_seconds());
}

}  // namespace

absl::StatusOr<Time> RooflineCost(const Step& step, ActionKind kind, int index, const Cluster& cluster,
                                  const CostOptions& options) {
  if (step.stream() != COMPUTE) return CopyCost(step, cluster);
  const Device& device = cluster.device();
  const double flops = step.work().flops();
  const double bytes = step.work().bytes();

  if (const KernelRate* rate = FindRate(step, device); rate != nullptr) {
    const double compute = rate->flops_per_second() > 0 ? flops / rate->flops_per_second() : 0;
    const double memory = rate->bytes_per_second() > 0 ? bytes / rate->bytes_per_second() : 0;
    return FromSeconds(rate->overhead_seconds() + std::max(compute, memory));
  }

  double compute = 0;
  if (flops > 0) {
    double peak = 0;
    for (const Peak& row : device.peaks()) {
      if (row.dtype() == step.work().dtype()) peak = row.flops_per_second();
    }
    const double rate = peak * Fraction(device.matmul_efficiency(), flops);
    if (!(rate > 0)) {
      return Missing(step, "device.peaks",
                     absl::StrCat("no rate for ", DTypeName(step.work().dtype()), " products; the kernel is ",
                                  Kernel_Name(step.kernel())));
    }
    compute = flops / rate;
  }
  double memory = 0;
  if (bytes > 0) {
    const double rate = device.memory_bytes_per_second() * Fraction(device.memory_efficiency(), bytes);
    if (!(rate > 0)) return Missing(step, "device.memory_bytes_per_second", "it moves bytes");
    memory = bytes / rate;
  }
  return FromSeconds(device.launch_seconds() + std::max(compute, memory));
}

}  // namespace weft
