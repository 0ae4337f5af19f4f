#include "simulator/cost/measured_rate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/kernel_key.h"
#include "proto/util/kernel_key.h"

namespace weft::sim {
namespace {

MeasuredRate RateOf(const KernelRate& row, RateSource source) {
  return {source, row.flops_per_second(), row.bytes_per_second(), row.overhead_seconds(), row.kernel()};
}

bool IsKey(const KernelRate& row) { return absl::StrContains(row.kernel(), ' '); }

const KernelRate* ByWork(const Step& step, const Device& device) {
  const KernelRate* found = nullptr;
  for (const KernelRate& rate : device.kernel_rates()) {
    if (rate.dtype() != step.work().dtype() || rate.kernel() != Kernel_Name(step.kernel())) continue;
    const double work = static_cast<double>(rate.flops_per_second() > 0 ? step.work().flops() : step.work().bytes());
    if (found == nullptr || rate.from_work() <= work) found = &rate;
  }
  return found;
}

// Returns the squared distance of the logarithms of the extents; negative = too far.
double Distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(std::log(static_cast<double>(a[i]) / static_cast<double>(b[i])));
    if (apart > std::log(kNearExtent) + 1e-9) return -1;
    sum += apart * apart;
  }
  return sum;
}

MeasuredRate Near(const KernelKeyParts& wanted, const Step& step, const Device& device) {
  MeasuredRate result;
  double weights = 0, flops = 0, bytes = 0, overhead = 0, nearest = 0;
  bool has_flops = false, has_bytes = false;
  KernelKeyParts parts;
  for (const KernelRate& row : device.kernel_rates()) {
    if (row.dtype() != step.work().dtype() || !absl::StartsWith(row.kernel(), wanted.form) || !IsKey(row)) continue;
    if (!ParseKernelKey(row.kernel(), &parts) || parts.form != wanted.form) continue;
    if (parts.extents.size() != wanted.extents.size()) continue;
    const double distance = Distance(parts.extents, wanted.extents);
    if (distance < 0) continue;
    // Rates by flops and rates by bytes cannot be averaged.
    const bool by_flops = row.flops_per_second() > 0, by_bytes = row.bytes_per_second() > 0;
    if (weights > 0 && (by_flops != has_flops || by_bytes != has_bytes)) continue;
    has_flops = by_flops;
    has_bytes = by_bytes;
    // A row of the very same shape can still differ in its work. The minimum keeps the weight of such a row finite.
    const double weight = 1 / std::max(distance, 1e-6);
    if (weights == 0 || distance < nearest) {
      nearest = distance;
      result.entry = row.kernel();
    }
    weights += weight;
    if (by_flops) flops += weight * std::log(row.flops_per_second());
    if (by_bytes) bytes += weight * std::log(row.bytes_per_second());
    overhead += weight * row.overhead_seconds();
  }
  if (weights == 0) return result;
  result.source = RateSource::kNear;
  if (has_flops) result.flops_per_second = std::exp(flops / weights);
  if (has_bytes) result.bytes_per_second = std::exp(bytes / weights);
  result.overhead_seconds = overhead / weights;
  return result;
}

bool IsFusedAttention(Kernel kernel) { return kernel == ATTENTION || kernel == ATTENTION_BACKWARD; }

// True if fused attention uses dropout. Without measured rates, this is the only case that gets a note.
bool HasDropoutInAttention(const Program& program) {
  for (const Segment& segment : program.segments()) {
    for (const Step& step : segment.steps()) {
      if (IsFusedAttention(step.kernel()) && step.attributes().dropout() > 0) return true;
    }
  }
  return false;
}

}  // namespace

MeasuredRate FindMeasuredRate(const Step& step, const Segment* segment, const Device& device) {
  if (device.kernel_rates().empty()) return {};
  if (segment != nullptr && std::any_of(device.kernel_rates().begin(), device.kernel_rates().end(), IsKey)) {
    const std::string key = kernels::KernelKey(*segment, step);
    for (const KernelRate& row : device.kernel_rates()) {
      if (row.dtype() == step.work().dtype() && row.kernel() == key) return RateOf(row, RateSource::kSame);
    }
    KernelKeyParts parts;
    if (ParseKernelKey(key, &parts)) {
      MeasuredRate near = Near(parts, step, device);
      if (near.source == RateSource::kNear) return near;
    }
  }
  const KernelRate* row = ByWork(step, device);
  return row != nullptr ? RateOf(*row, RateSource::kByWork) : MeasuredRate();
}

std::vector<StepRate> RatesOfSteps(const Program& program, const Device& device) {
  std::map<std::string, StepRate> rates;
  for (const Segment& segment : program.segments()) {
    for (const Step& step : segment.steps()) {
      if (step.stream() != COMPUTE) continue;
      std::string key = kernels::KernelKey(segment, step);
      StepRate& rate = rates[absl::StrCat(key, "/", step.work().dtype())];
      if (++rate.steps > 1) continue;
      rate.key = std::move(key);
      rate.kernel = step.kernel();
      rate.rate = FindMeasuredRate(step, &segment, device);
    }
  }
  std::vector<StepRate> result;
  for (auto& [key, rate] : rates) result.push_back(std::move(rate));
  return result;
}

std::vector<std::string> NotesOnRates(const Program& program, const Device& device) {
  std::vector<std::string> notes;
  if (device.kernel_rates().empty() && !HasDropoutInAttention(program)) return notes;
  std::set<std::string> unmeasured, slow;
  int64_t near = 0, all = 0;
  bool any_key = false;
  for (const StepRate& step : RatesOfSteps(program, device)) {
    all += step.steps;
    any_key = any_key || step.rate.source == RateSource::kSame || step.rate.source == RateSource::kNear;
    if (step.rate.source == RateSource::kNear) near += step.steps;
    if (step.rate.source == RateSource::kNone) unmeasured.insert(Kernel_Name(step.kernel));
    // Rates by work are for plain causal attention, without dropout.
    const bool own =
        IsFusedAttention(step.kernel) && step.rate.source != RateSource::kSame && step.rate.source != RateSource::kNear;
    if (own && absl::StrContains(step.key, " dropout")) slow.insert(step.key);
  }
  if (!device.kernel_rates().empty() && !unmeasured.empty()) {
    notes.push_back(
        absl::StrCat(device.name(), " has no measured rate of ", absl::StrJoin(unmeasured, ", "),
                     "; the cost model predicts their times; weft calibrate --program measures a program's own steps"));
  }
  if (near > 0) {
    notes.push_back(absl::StrCat(near, " of ", all, " steps use measured rates of similar shapes on ", device.name(),
                                 "; weft calibrate --program measures a program's own steps"));
  }
  // Only GPUs have compute capabilities.
  if (device.compute_capability() > 0 && !slow.empty()) {
    notes.push_back(absl::StrCat("attention with dropout (", *slow.begin(), slow.size() > 1 ? ", ..." : "",
                                 ") is costed as fused attention, but weft's backend cuda runs it on slower kernels; "
                                 "weft calibrate --program measures them"));
  }
  return notes;
}

}  // namespace weft::sim
