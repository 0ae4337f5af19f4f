#include "proto/validate/validate_runtime.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "proto/program.pb.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/field_check.h"

namespace weft {
namespace {

constexpr double kLargestFactor = 1e6;
constexpr double kLongest = 3600;
constexpr int kLargestCapability = 1000;

absl::Status CheckFactor(absl::string_view path, double value) {
  if (value >= 0 && value <= kLargestFactor) return absl::OkStatus();
  return BadField(path, value, absl::StrCat("at least 0 and at most ", kLargestFactor));
}

absl::Status CheckSeconds(absl::string_view path, double value) {
  if (value >= 0 && value <= kLongest) return absl::OkStatus();
  return BadField(path, value, absl::StrCat("at least 0 and at most ", kLongest));
}

// A form of a collective may not state costs, because the network gives them. There is one exception: the form of a
// gather may state `bytes`, the factor for how much is moved.
absl::Status CheckGroupForm(const std::string& path, const KernelForm& form) {
  const bool gather = form.kernel() == Kernel_Name(GROUP_ALL_GATHER);
  if (!gather && form.kernel() != Kernel_Name(GROUP_ALL_REDUCE) && form.kernel() != Kernel_Name(GROUP_REDUCE_SCATTER)) {
    return absl::OkStatus();
  }
  if (!gather) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".kernel = ", Quoted(form.kernel()),
                                                   " is a collective, whose cost comes from the network; the only "
                                                   "collective allowed here is GROUP_ALL_GATHER, with bytes"));
  }
  const auto means_nothing = [&](absl::string_view field, double value) {
    if (value == 0) return absl::OkStatus();
    return BadField(absl::StrCat(path, ".", field), value, "0 for GROUP_ALL_GATHER, which takes only bytes");
  };
  WEFT_RETURN_IF_ERROR(means_nothing("launches", form.launches()));
  WEFT_RETURN_IF_ERROR(means_nothing("time", form.time()));
  WEFT_RETURN_IF_ERROR(means_nothing("saved", form.saved()));
  return means_nothing("workspace", form.workspace());
}

absl::Status ValidateKernels(const Runtime& runtime) {
  std::set<std::pair<std::string, int>> seen;
  for (int i = 0; i < runtime.kernels_size(); ++i) {
    const KernelForm& form = runtime.kernels(i);
    const std::string path = absl::StrCat("runtime.kernels[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckKernel(absl::StrCat(path, ".kernel"), form.kernel()));
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat(path, ".launches"), form.launches(), 0, 1000));
    WEFT_RETURN_IF_ERROR(CheckFactor(absl::StrCat(path, ".bytes"), form.bytes()));
    WEFT_RETURN_IF_ERROR(CheckFactor(absl::StrCat(path, ".time"), form.time()));
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat(path, ".from_compute_capability"), form.from_compute_capability(), 0,
                                     kLargestCapability));
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat(path, ".below_compute_capability"), form.below_compute_capability(),
                                     0, kLargestCapability));
    WEFT_RETURN_IF_ERROR(CheckFactor(absl::StrCat(path, ".factor_bytes"), form.factor_bytes()));
    if (form.in_8_bits() && form.kernel() != Kernel_Name(MATMUL)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".in_8_bits is set; it is for MATMUL, not ", form.kernel()));
    }
    if (form.factor_bytes() > 0 && form.kernel() != Kernel_Name(MATMUL)) {
      return BadField(absl::StrCat(path, ".factor_bytes"), form.factor_bytes(), "0 for a kernel other than MATMUL");
    }
    WEFT_RETURN_IF_ERROR(CheckFactor(absl::StrCat(path, ".loss_time"), form.loss_time()));
    if (form.loss_time() > 0 && form.kernel() != Kernel_Name(MATMUL)) {
      return BadField(absl::StrCat(path, ".loss_time"), form.loss_time(), "0 for a kernel other than MATMUL");
    }
    if (form.weights_cast_once() && !(form.factor_bytes() > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".weights_cast_once is set; it is for a MATMUL with factor_bytes"));
    }
    if (KernelForm bare = form; form.unsupported()) {
      bare.clear_kernel();
      bare.clear_from_compute_capability();
      bare.clear_below_compute_capability();
      bare.clear_unsupported();
      if (bare.ByteSizeLong() > 0) {
        return absl::InvalidArgumentError(absl::StrCat(path,
                                                       ".unsupported is set, but the form also has other fields; it "
                                                       "may have only kernel and compute capabilities"));
      }
    }
    WEFT_RETURN_IF_ERROR(CheckGroupForm(path, form));
    if (form.below_compute_capability() > 0 && form.below_compute_capability() <= form.from_compute_capability()) {
      return BadField(absl::StrCat(path, ".below_compute_capability"), form.below_compute_capability(),
                      absl::StrCat("0 or greater than from_compute_capability, ", form.from_compute_capability()));
    }
    if (!(std::abs(form.workspace()) <= kLargestFactor)) {
      return BadField(absl::StrCat(path, ".workspace"), form.workspace(),
                      absl::StrCat("at least ", -kLargestFactor, " and at most ", kLargestFactor));
    }
    WEFT_RETURN_IF_ERROR(CheckFactor(absl::StrCat(path, ".saved"), form.saved()));
    if (!seen.insert({form.kernel(), form.from_compute_capability()}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".kernel = ", Quoted(form.kernel()),
                       " is listed twice with from_compute_capability = ", form.from_compute_capability()));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePlanDefaults(const Plan& plan) {
  const auto refused = [](absl::string_view field) {
    return absl::InvalidArgumentError(absl::StrCat(
        "runtime.plan.", field, " is set, but it belongs to one model and machine, not to a framework; leave it out"));
  };
  if (plan.has_mesh()) return refused("mesh");
  if (plan.has_partition()) return refused("partition");
  if (plan.has_offload()) return refused("offload");
  if (plan.has_schedule() && !plan.schedule().definition().empty()) return refused("schedule.definition");
  if (plan.recompute().layers_size() > 0) return refused("recompute.layers");
  if (plan.zero().kept_layers_size() > 0) return refused("zero.kept_layers");
  WEFT_RETURN_IF_ERROR(CheckAtLeast("runtime.plan.gradient_bucket_bytes", plan.gradient_bucket_bytes(), 0));
  WEFT_RETURN_IF_ERROR(CheckWithin("runtime.plan.zero.stage", plan.zero().stage(), 0, 3));
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Runtime& runtime) {
  WEFT_RETURN_IF_ERROR(CheckNotEmpty("runtime.name", runtime.name()));
  if (runtime.has_dropout()) WEFT_RETURN_IF_ERROR(CheckProbability("runtime.dropout", runtime.dropout()));
  WEFT_RETURN_IF_ERROR(ValidatePlanDefaults(runtime.plan()));
  WEFT_RETURN_IF_ERROR(ValidateKernels(runtime));
  WEFT_RETURN_IF_ERROR(CheckSeconds("runtime.host.launch_seconds", runtime.host().launch_seconds()));
  WEFT_RETURN_IF_ERROR(CheckSeconds("runtime.host.microbatch_seconds", runtime.host().microbatch_seconds()));
  WEFT_RETURN_IF_ERROR(CheckSeconds("runtime.host.step_seconds", runtime.host().step_seconds()));
  WEFT_RETURN_IF_ERROR(CheckSeconds("runtime.host.transfer_seconds", runtime.host().transfer_seconds()));
  WEFT_RETURN_IF_ERROR(
      CheckSeconds("runtime.host_transport.latency_seconds", runtime.host_transport().latency_seconds()));
  if (const double rate = runtime.host_transport().bytes_per_second(); !(rate == 0 || (rate >= 1 && rate <= 1e15))) {
    return BadField("runtime.host_transport.bytes_per_second", rate, "0, or at least 1 and at most 1e15");
  }
  WEFT_RETURN_IF_ERROR(CheckWithin("runtime.tensor_pieces", runtime.tensor_pieces(), 0, 64));
  WEFT_RETURN_IF_ERROR(CheckWithin("runtime.joins_from_compute_capability", runtime.joins_from_compute_capability(), 0,
                                   kLargestCapability));
  WEFT_RETURN_IF_ERROR(CheckSeconds("runtime.member_seconds", runtime.member_seconds()));
  WEFT_RETURN_IF_ERROR(CheckFactor("runtime.gathered_weight_bytes", runtime.gathered_weight_bytes()));
  if (runtime.has_usual_microbatch()) {
    const UsualMicrobatch& usual = runtime.usual_microbatch();
    WEFT_RETURN_IF_ERROR(CheckWithin("runtime.usual_microbatch.most", usual.most(), 1, 1 << 20));
    WEFT_RETURN_IF_ERROR(CheckWithin("runtime.usual_microbatch.per_stage", usual.per_stage(), 1, 1 << 20));
  }
  const RuntimeMemory& memory = runtime.memory();
  WEFT_RETURN_IF_ERROR(CheckWithin("runtime.memory.reserved_bytes", memory.reserved_bytes(), 0, int64_t{1} << 50));
  WEFT_RETURN_IF_ERROR(CheckProbability("runtime.memory.fragmentation", memory.fragmentation()));
  WEFT_RETURN_IF_ERROR(CheckFactor("runtime.memory.bytes_per_wide_gradient", memory.bytes_per_wide_gradient()));
  return CheckWithin("runtime.memory.block_bytes", memory.block_bytes(), 0, int64_t{1} << 30);
}

Runtime Derived(const Runtime& base, const Runtime& runtime) {
  Runtime derived = base;
  Runtime own = runtime;
  std::set<std::string> replaced;
  for (const KernelForm& form : own.kernels()) replaced.insert(form.kernel());
  derived.clear_kernels();
  for (const KernelForm& form : base.kernels()) {
    if (replaced.count(form.kernel()) == 0) *derived.add_kernels() = form;
  }
  derived.MergeFrom(own);
  return derived;
}

Plan PlanUnder(const Runtime& runtime, const Plan& plan) {
  Plan under = runtime.plan();
  // If the plan has a mode of recompute, the runtime's settings for its own mode do not apply.
  if (plan.recompute().mode() != Recompute::NONE) under.clear_recompute();
  under.MergeFrom(plan);
  const bool cuts_layers = AxisSize(plan.mesh(), "x") > 1;
  if (!cuts_layers && !plan.sequence_parallel()) under.clear_sequence_parallel();
  // With these ZeRO stages, each backward sums its own gradients, so the runtime's buckets do not apply.
  if (plan.zero().stage() >= 2 && plan.gradient_bucket_bytes() == 0) under.clear_gradient_bucket_bytes();
  if (plan.zero().stage() == 3 && plan.gradient_sync() == EAGER) under.clear_gradient_sync();
  if (under.has_zero() && under.zero().stage() != 3 && plan.zero().reshard() == Zero::AFTER_FORWARD) {
    under.mutable_zero()->clear_reshard();
  }
  if (under.has_zero() && under.zero().stage() != 3 && !plan.zero().has_prefetch()) {
    under.mutable_zero()->clear_prefetch();
  }
  return under;
}

}  // namespace weft
