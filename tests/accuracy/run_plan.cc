#include "tests/accuracy/run_plan.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/inputs/usual_microbatch.h"
#include "proto/util/status.h"
#include "tests/accuracy/family.h"
#include "tests/accuracy/run_model.h"
#include "tests/accuracy/schedule_name.h"

namespace weft {
namespace {

absl::StatusOr<int64_t> Stated(const std::optional<int64_t>& size, absl::string_view name) {
  if (size) return *size;
  return absl::InvalidArgumentError(absl::StrCat("plan.", name, " is not stated"));
}

absl::Status Inexpressible(absl::string_view field, absl::string_view given, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is '", given.substr(0, 80), "': ", why));
}

bool IsOne(absl::string_view gpu, std::initializer_list<absl::string_view> devices) {
  const std::string name = absl::AsciiStrToUpper(gpu);
  return std::any_of(devices.begin(), devices.end(),
                     [&](absl::string_view device) { return absl::StrContains(name, device); });
}

// True if `words` mean that the source does not state the value.
bool IsNotSaid(absl::string_view words) {
  for (const absl::string_view word : {"n/a", "na", "-", "unknown", "unstated", "not stated", "not specified", "?"}) {
    if (words == word) return true;
  }
  return false;
}

class PlanBuilder {
 public:
  PlanBuilder(const Measurement& run, const Runtime& runtime, std::vector<std::string>* assumptions)
      : run_(run), runtime_(runtime), assumptions_(assumptions) {
    made_.plan = runtime.plan();
  }

  absl::StatusOr<RunPlan> Build() {
    WEFT_RETURN_IF_ERROR(Mesh());
    WEFT_RETURN_IF_ERROR(Batch());
    WEFT_RETURN_IF_ERROR(Schedule());
    WEFT_RETURN_IF_ERROR(Precisions());
    Attention();
    WEFT_RETURN_IF_ERROR(Recomputes());
    WEFT_RETURN_IF_ERROR(Sharding());
    made_.recipe.set_dropout(runtime_.dropout());
    made_.plan.set_dropout_masks(runtime_.dropout() > 0);
    return std::move(made_);
  }

 private:
  void Assume(std::string text) { assumptions_->push_back(std::move(text)); }

  absl::Status Mesh() {
    const Measurement::Plan& plan = run_.plan;
    if (plan.cp.value_or(1) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("plan.cp = ", *plan.cp, ": weft has no context parallelism"));
    }
    if (plan.ep.value_or(1) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("plan.ep = ", *plan.ep, ": weft has no expert parallelism"));
    }
    constexpr int64_t kMax = int64_t{1} << 20;
    if (!run_.machine.gpus) return absl::InvalidArgumentError("cluster.gpus is not stated");
    const int64_t gpus = *run_.machine.gpus;
    if (plan.zero_stage == 3 && !plan.tp && !plan.pp && !plan.dp && gpus > 0) {
      Assume("ZeRO 3 over all devices");
      dp_ = gpus;
    } else {
      // Derives a degree from the number of devices and the other two degrees. If the replicas alone use all devices,
      // both missing degrees are 1.
      const auto rest = [&](const std::optional<int64_t>& own, const std::optional<int64_t>& other,
                            absl::string_view name) -> absl::StatusOr<int64_t> {
        if (own) return *own;
        const int64_t known = other.value_or(1);
        if (!plan.dp || *plan.dp > kMax || known > kMax || gpus % (*plan.dp * known) != 0) return Stated(own, name);
        const int64_t left = gpus / (*plan.dp * known);
        if (!other && left != 1) return Stated(own, name);
        Assume(absl::StrCat(name, " = ", left, ", which the devices make up"));
        return left;
      };
      WEFT_ASSIGN_OR_RETURN(tp_, rest(plan.tp, plan.pp, "tp"));
      WEFT_ASSIGN_OR_RETURN(pp_, rest(plan.pp, plan.tp, "pp"));
      if (!plan.dp && tp_ > 0 && pp_ > 0 && tp_ <= kMax && pp_ <= kMax && gpus > 0) {
        dp_ = std::max<int64_t>(1, gpus / (tp_ * pp_));
        Assume(absl::StrCat(dp_, " replicas, which the devices make up"));
      } else {
        WEFT_ASSIGN_OR_RETURN(dp_, Stated(plan.dp, "dp"));
      }
    }
    if (tp_ > kMax || pp_ > kMax || dp_ > kMax || tp_ * pp_ > kMax || tp_ * pp_ * dp_ != gpus) {
      return absl::InvalidArgumentError(absl::StrCat("plan.tp = ", tp_, ", pp = ", pp_, " and dp = ", dp_,
                                                     " do not make up the ", gpus, " devices of the cluster"));
    }
    // Tensor parallelism is the innermost axis and the pipeline the outermost: all frameworks of the measured runs use
    // this order.
    const std::pair<const char*, int64_t> axes[] = {{"x", tp_}, {"data", dp_}, {"pipe", pp_}};
    for (const auto& [name, size] : axes) {
      if (size == 1 && std::string(name) != "pipe") continue;
      MeshAxis* axis = made_.plan.mutable_mesh()->add_axes();
      axis->set_name(name);
      axis->set_size(size);
    }
    return absl::OkStatus();
  }

  absl::Status Batch() {
    WEFT_ASSIGN_OR_RETURN(int64_t batch, Stated(run_.plan.global_batch, "global_batch"));
    constexpr int64_t kMaxBatch = int64_t{1} << 40;
    const int64_t micro = run_.plan.micro_batch.value_or(UsualMicrobatchOf(runtime_, batch, dp_, pp_).value_or(1));
    if (!run_.plan.micro_batch) {
      Assume(micro == 1 ? "microbatches of one sequence" : absl::StrCat("microbatches of ", micro, " sequences"));
    }
    // A batch size that was derived from a number of tokens may be off by up to 1 / kNear, so it is rounded to a size
    // that the replicas can share. A larger difference means that the figures do not belong to one run.
    constexpr int64_t kNear = 100;
    if (micro <= batch / dp_ && batch <= kMaxBatch) {
      const int64_t round = micro * dp_, nearest = std::max<int64_t>(1, (batch + round / 2) / round) * round;
      if (nearest != batch && std::abs(nearest - batch) <= batch / kNear) {
        Assume(absl::StrCat("a batch of ", nearest, ", which ", dp_, " replicas can share"));
        batch = nearest;
      }
    }
    made_.recipe.set_sequence_length(run_.model.sequence.value_or(kUsualSequence));
    made_.recipe.set_global_batch_sequences(batch);
    made_.recipe.set_microbatch_sequences(micro);
    return absl::OkStatus();
  }

  absl::Status Schedule() {
    const Measurement::Plan& plan = run_.plan;
    if (!run_.model.layers) return absl::InvalidArgumentError("model.layers is not stated");
    const int64_t blocks = *run_.model.layers;
    std::string name = absl::AsciiStrToLower(plan.schedule.substr(0, 200));
    if (IsNotSaid(name)) name.clear();
    int64_t per_rank = plan.vpp.value_or(1);
    const ScheduleName* found = FindScheduleName(name);
    if (found == nullptr && pp_ > 1) {
      return Inexpressible("plan.schedule", plan.schedule, "weft has no schedule of this name");
    }
    std::string schedule(found == nullptr ? "1f1b" : found->schedule);
    if (schedule == "1f1b" && per_rank > 1) schedule = "interleaved";
    const bool chunked = schedule == "interleaved" || (found != nullptr && found->chunks > 0);
    if (chunked && per_rank == 1) {
      const int64_t units = blocks % pp_ == 0 ? blocks : blocks + 2;
      if (absl::StrContains(name, "1 layer per chunk") && units % pp_ == 0) {
        per_rank = units / pp_;
      } else {
        per_rank = 2;
        if (pp_ > 1) Assume("two virtual stages per rank");
      }
    }
    if (name.empty() && schedule == "1f1b" && pp_ > 1) Assume("schedule 1f1b");
    if (pp_ == 1) {
      schedule = "1f1b";
      per_rank = 1;
    }
    made_.plan.mutable_schedule()->set_name(schedule);
    if (chunked && pp_ > 1) made_.plan.mutable_schedule()->set_virtual_stages(static_cast<int32_t>(per_rank));
    const int64_t stages = pp_ * per_rank;
    constexpr int64_t kMaxBlocks = 10000;
    if (blocks > kMaxBlocks || stages > blocks + 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.layers = ", blocks, " cannot be cut into ", stages, " stages"));
    }
    if (pp_ == 1) made_.plan.clear_transfer_placement();
    return absl::OkStatus();
  }

  absl::Status Precisions() {
    const std::string given = absl::AsciiStrToLower(run_.plan.precision);
    const bool old = IsOne(run_.machine.gpu, {"V100", "P100"});
    const auto says = [&](absl::string_view word) { return absl::StrContains(given, word); };
    const bool eight = InEightBits(run_.plan.precision);
    const bool brain = says("bf16") || says("bfloat16");
    const bool sixteen = !brain && (says("fp16") || says("float16") || says("half"));
    if (says("fp4") || says("float4")) {
      return Inexpressible("plan.precision", run_.plan.precision, "weft has no products in 4 bits");
    }
    if (eight) {
      if (old || IsOne(run_.machine.gpu, {"A100", "A800", "MI250"})) {
        return Inexpressible("plan.precision", run_.plan.precision,
                             absl::StrCat(run_.machine.gpu.substr(0, 80), " has no products in 8 bits"));
      }
      if (!absl::c_any_of(runtime_.kernels(), [](const KernelForm& form) { return form.in_8_bits(); })) {
        return Inexpressible("plan.precision", run_.plan.precision,
                             absl::StrCat("runtime ", runtime_.name(), " has no products in 8 bits"));
      }
      Assume("products in 8 bits, all else in bf16");
    }
    Precision& precision = *made_.plan.mutable_precision();
    const bool narrow = eight || brain || sixteen || says("mixed") || says("amp");
    if (!narrow && (says("tf32") || says("fp32") || says("float32") || given == "single")) return Wide(given);
    if (!given.empty() && !narrow) {
      return Inexpressible("plan.precision", run_.plan.precision, "known are bf16, fp16, fp8, tf32 and fp32");
    }
    const bool stated = eight || brain || sixteen;
    const bool half = sixteen || (!stated && (old || precision.compute() == FP16));
    if (!stated) Assume(half ? "fp16" : "bf16");
    const DType compute = half ? FP16 : BF16;
    precision.set_compute(compute);
    precision.set_params(compute);
    // Gradients have the compute type in two cases: the source reduces sharded gradients in bf16 and so also keeps them
    // in bf16, or the runtime's gradients already have that type.
    const bool accumulates_wide = absl::StrContains(given, "fp32 grad");
    const bool small =
        !accumulates_wide && (absl::StrContains(given, "reduce in bf16") || precision.grads() == compute);
    precision.set_grads(small ? compute : FP32);
    precision.set_reduce(small ? compute : FP32);
    precision.set_master(FP32);
    precision.set_moments(FP32);
    return absl::OkStatus();
  }

  // Sets all types to 32 bits. PyTorch rounds factors of products to TF32 only on request
  // (torch.backends.cuda.matmul.allow_tf32, off since 1.12), so a source that states only fp32 multiplies in fp32.
  absl::Status Wide(absl::string_view given) {
    const auto says = [&](absl::string_view word) { return absl::StrContains(given, word); };
    const bool off = says("no tf32") || says("not tf32") || says("without tf32") || says("tf32 off") ||
                     says("tf32 disabled") || says("tf32=false") || says("allow_tf32 = false");
    const bool rounded = says("tf32") && !off;
    if (rounded && IsOne(run_.machine.gpu, {"V100", "P100", "MI250"})) {
      return Inexpressible("plan.precision", run_.plan.precision,
                           absl::StrCat(run_.machine.gpu.substr(0, 80), " has no products in TF32"));
    }
    Precision& precision = *made_.plan.mutable_precision();
    precision.set_compute(rounded ? TF32 : FP32);
    precision.set_params(FP32);
    precision.set_grads(FP32);
    precision.set_reduce(FP32);
    precision.set_master(FP32);
    precision.set_moments(FP32);
    return absl::OkStatus();
  }

  void Attention() {
    const auto kernel = run_.extra.find("attention_kernel");
    if (kernel == run_.extra.end()) return;
    const std::string name = absl::AsciiStrToLower(kernel->second.substr(0, 200));
    const auto has = [&name](absl::string_view word) { return absl::StrContains(name, word); };
    const bool none = absl::StartsWith(name, "no") || has("without") || has("unfused");
    constexpr absl::string_view kFused[] = {"flash", "sdpa", "cudnn", "xformers", "efficient", "fa1", "fa2", "fa3"};
    constexpr absl::string_view kApart[] = {"softmax", "torch", "naive", "math", "eager", "standard", "baddbmm"};
    const bool fused = !none && std::any_of(std::begin(kFused), std::end(kFused), has);
    if (!fused && !none && std::none_of(std::begin(kApart), std::end(kApart), has)) {
      Assume(absl::StrCat("attention '", kernel->second.substr(0, 40), "' as ", runtime_.name(), " has it"));
      return;
    }
    made_.plan.set_attention(fused ? FUSED : MATERIALIZED);
  }

  absl::Status Recomputes() {
    std::string given = absl::AsciiStrToLower(run_.plan.recompute.substr(0, 200));
    if (IsNotSaid(given)) given.clear();
    // The plan still has the runtime's recompute setting, which is what this runtime means by "selective".
    const Recompute selective = made_.plan.recompute();
    made_.plan.clear_recompute();
    Recompute& recompute = *made_.plan.mutable_recompute();
    const auto is_checkpointing = [](absl::string_view words) {
      return words == "checkpointing" || words == "activation checkpointing" || words == "gradient checkpointing";
    };
    if (given == "none" || given == "no" || given == "false" || given == "off" || absl::StartsWith(given, "none (") ||
        (absl::StartsWith(given, "no ") && is_checkpointing(absl::string_view(given).substr(3)))) {
      return absl::OkStatus();
    }
    if (absl::StrContains(given, "every other layer") || absl::StrContains(given, "every second layer")) {
      recompute.set_mode(Recompute::EVERY);
      recompute.set_every(2);
      return absl::OkStatus();
    }
    const bool some = absl::StrContains(given, "half") || absl::StrContains(given, " of ") ||
                      std::any_of(given.begin(), given.end(), [](char c) { return absl::ascii_isdigit(c); });
    if (given.empty()) {
      made_.recompute_unknown = true;
    } else if (absl::StartsWith(given, "full") && !some) {
      recompute.set_mode(Recompute::FULL);
    } else if (given == "yes" || given == "true" || given == "on" || (absl::StartsWith(given, "uniform") && !some) ||
               is_checkpointing(given)) {
      recompute.set_mode(Recompute::FULL);
      Assume("every layer recomputed");
    } else if (absl::StrContains(given, "selective") && selective.mode() != Recompute::NONE) {
      recompute = selective;
    } else if (absl::StrContains(given, "per op") || given == "selective op") {
      Assume("operators recomputed one by one cost nothing");
    } else if (given == "selective" || absl::StrContains(given, "attention core") ||
               absl::StrContains(given, "core attention") || absl::StrContains(given, "core_attn")) {
      // A fused attention kernel always recomputes the scores, so only materialized attention needs a setting.
      if (made_.plan.attention() == MATERIALIZED) recompute.set_mode(Recompute::SELECTIVE);
    } else {
      return Inexpressible("plan.recompute", run_.plan.recompute, "weft has no such choice");
    }
    return absl::OkStatus();
  }

  absl::Status Sharding() {
    const Measurement::Plan& plan = run_.plan;
    const bool sequence_parallel = plan.sequence_parallel.value_or(runtime_.plan().sequence_parallel());
    made_.plan.set_sequence_parallel(sequence_parallel && tp_ > 1);
    if (!plan.sequence_parallel && tp_ > 1) {
      Assume(absl::StrCat(sequence_parallel ? "with" : "without", " sequence parallelism"));
    }
    int64_t stage = plan.zero_stage.value_or(0);
    if (stage == 2 && pp_ > 1) {
      // With ZeRO 2, weft would reduce-scatter the gradients of every microbatch. The prediction assumes that the run
      // sums them once per iteration.
      stage = 1;
      Assume("gradients summed once per step, as with ZeRO 1");
    }
    if (!plan.zero_stage && dp_ > 1) Assume("optimizer states on every replica");
    if (stage > 3) return absl::InvalidArgumentError(absl::StrCat("plan.zero_stage = ", stage, "; weft has 0 to 3"));
    if (stage > 0 && dp_ > 1) {
      made_.plan.mutable_zero()->set_stage(static_cast<int32_t>(stage));
      int64_t group = 0;
      const auto stated = run_.extra.find("zero1_shard_group");
      if (stage == 1 && stated != run_.extra.end() && absl::SimpleAtoi(stated->second, &group) && group > 0 &&
          group < dp_) {
        made_.plan.mutable_zero()->set_group(group);
      }
    }
    if (stage == 3) made_.plan.clear_gradient_sync();
    if (stage > 1) made_.plan.clear_gradient_bucket_bytes();
    const std::string offload = absl::AsciiStrToLower(plan.offload.substr(0, 200));
    if (offload.empty() || offload == "none" || offload == "no" || offload == "false" || IsNotSaid(offload)) {
      return absl::OkStatus();
    }
    if (!absl::StartsWith(offload, "optimizer to cpu")) {
      return Inexpressible("plan.offload", plan.offload, "weft leaves parameters on the device");
    }
    made_.plan.mutable_offload()->set_optimizer(true);
    return absl::OkStatus();
  }

  const Measurement& run_;
  const Runtime& runtime_;
  std::vector<std::string>* assumptions_;
  RunPlan made_;
  int64_t tp_ = 1, pp_ = 1, dp_ = 1;
};

}  // namespace

absl::StatusOr<RunPlan> PlanOf(const Measurement& run, const Runtime& runtime, std::vector<std::string>* assumptions) {
  return PlanBuilder(run, runtime, assumptions).Build();
}

}  // namespace weft
