#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"
#include "proto/validate/field_check.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_loss_scale.h"
#include "proto/validate/validate_plan_parallel.h"

namespace weft {
namespace {

constexpr int64_t kMaxRanks = int64_t{1} << 20;
// Limits that the verifier sets for programs.
constexpr int64_t kMaxStages = int64_t{1} << 16;
constexpr int64_t kMaxLanes = 64;
constexpr int64_t kMaxMicrobatches = int64_t{1} << 20;
// The largest text of a schedule, with about 10 bytes for each slot.
constexpr size_t kMaxDefinition = size_t{1} << 27;

// Returns help for an axis name that other frameworks or the command line use; "" for other names.
std::string MeantAxis(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  const auto is_one_of = [&](std::initializer_list<absl::string_view> names) {
    return std::find(names.begin(), names.end(), lower) != names.end();
  };
  if (is_one_of({"pp", "pipeline", "stage", "stages"})) return "write 'pipe'";
  if (is_one_of({"dp", "replica", "replicas", "fsdp", "data_parallel"})) return "write 'data'";
  if (is_one_of({"tp", "tensor", "model", "mp"}))
    return "write 'x', or 'x', 'y' and 'z' to cut tensors in several directions";
  if (is_one_of({"cp", "context", "sp", "sequence"})) {
    return "weft has no context parallelism: sequences are cut over 'x' with plan.sequence_parallel";
  }
  if (is_one_of({"ep", "expert", "experts"})) return "weft has no expert parallelism: models are dense";
  return "";
}

absl::Status ValidateMesh(const Mesh& mesh) {
  const std::vector<std::string> names = {"x", "y", "z", "data", "pipe"};
  std::set<std::string> seen;
  int64_t ranks = 1;
  for (int i = 0; i < mesh.axes_size(); ++i) {
    const MeshAxis& axis = mesh.axes(i);
    const std::string path = absl::StrCat("plan.mesh.axes[", i, "]");
    if (const std::string meant = MeantAxis(axis.name()); !meant.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".name = '", axis.name(), "' is not an axis of weft; ", meant));
    }
    WEFT_RETURN_IF_ERROR(CheckOneOf(absl::StrCat(path, ".name"), axis.name(), names));
    if (!seen.insert(axis.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".name = '", axis.name(),
                                                     "' is listed twice; an axis can have only one place in the mesh"));
    }
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat(path, ".size"), axis.size(), 1, kMaxRanks));
    ranks *= axis.size();
    WEFT_RETURN_IF_ERROR(CheckWithin("ranks of plan.mesh", ranks, 1, kMaxRanks));
  }
  return absl::OkStatus();
}

// The registry checks which parameters a schedule takes and how many stages it has; this checks their ranges.
absl::Status ResolveSchedule(PlanSchedule* schedule) {
  if (schedule->name().empty() && schedule->definition().empty()) schedule->set_name("1f1b");
  struct Parameter {
    const char* name;
    int32_t value;
    int64_t most;
  };
  for (const Parameter& p : {Parameter{"virtual_stages", schedule->virtual_stages(), kMaxStages},
                             {"waves", schedule->waves(), kMaxStages},
                             {"lanes", schedule->lanes(), kMaxLanes},
                             {"limit", schedule->limit(), kMaxMicrobatches},
                             {"group", schedule->group(), kMaxMicrobatches}}) {
    const std::string path = absl::StrCat("plan.schedule.", p.name);
    // If the user gives a negative number, the error asks for at least 1, because 0 stands for "not given".
    if (p.value < 0) return BadField(path, p.value, "at least 1; by default the schedule chooses it");
    WEFT_RETURN_IF_ERROR(CheckWithin(path, p.value, 0, p.most));
    if (p.value == 0 || schedule->definition().empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, " = ", p.value,
        " is given together with plan.schedule.definition, which takes no parameters; leave one of the two out"));
  }
  if (schedule->definition().size() > kMaxDefinition) {
    return absl::InvalidArgumentError(absl::StrCat("plan.schedule.definition has ", schedule->definition().size(),
                                                   " bytes; allowed: at most ", kMaxDefinition));
  }
  if (!PlanSchedule::Scaling_IsValid(schedule->scaling())) {
    return BadField("plan.schedule.scaling", static_cast<int>(schedule->scaling()),
                    "CONCATENATION, FORWARD_DOUBLING or BACKWARD_HALVING");
  }
  if (schedule->scaling() != PlanSchedule::CONCATENATION && !schedule->definition().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.schedule.scaling = ", PlanSchedule::Scaling_Name(schedule->scaling()),
                     " is given together with plan.schedule.definition, which takes no parameters; leave one of the "
                     "two out"));
  }
  return absl::OkStatus();
}

absl::Status ValidatePartition(const Partition& partition) {
  for (int i = 0; i < partition.layers_per_stage_size(); ++i) {
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat("plan.partition.layers_per_stage[", i, "]"),
                                     partition.layers_per_stage(i), 1, 1 << 20));
  }
  return absl::OkStatus();
}

absl::Status ValidateRecompute(const Recompute& recompute) {
  const auto needs = [&](absl::string_view field, absl::string_view mode) {
    return absl::InvalidArgumentError(absl::StrCat("plan.recompute.", field, " is given, but plan.recompute.mode is ",
                                                   Recompute::Mode_Name(recompute.mode()), "; it needs mode ", mode));
  };
  if (!Recompute::Mode_IsValid(recompute.mode())) {
    return BadField("plan.recompute.mode", static_cast<int>(recompute.mode()),
                    "NONE, FULL, LAYERS, EVERY, SELECTIVE, AXONN, FIT or INTERVAL");
  }
  if (recompute.layers_size() > 0 && recompute.mode() != Recompute::LAYERS) return needs("layers", "LAYERS");
  if (recompute.every() != 0 && recompute.mode() != Recompute::EVERY) return needs("every", "EVERY");
  if (recompute.interval() != 0 && recompute.mode() != Recompute::INTERVAL) return needs("interval", "INTERVAL");
  WEFT_RETURN_IF_ERROR(CheckAtLeast("plan.recompute.interval", recompute.interval(), 0));
  if (recompute.mode() == Recompute::EVERY) {
    if (recompute.every() == 0) {
      return absl::InvalidArgumentError("plan.recompute.every is missing; mode EVERY needs it, at least 1");
    }
    return CheckAtLeast("plan.recompute.every", recompute.every(), 1);
  }
  if (recompute.mode() == Recompute::LAYERS && recompute.layers_size() == 0) {
    return absl::InvalidArgumentError("plan.recompute.layers is empty; mode LAYERS needs the layers, e.g. [1, 2]");
  }
  for (int i = 0; i < recompute.layers_size(); ++i) {
    const std::string path = absl::StrCat("plan.recompute.layers[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckAtLeast(path, recompute.layers(i), 0));
    if (i > 0 && recompute.layers(i) <= recompute.layers(i - 1)) {
      return BadField(path, recompute.layers(i),
                      absl::StrCat("greater than the one before, ", recompute.layers(i - 1)));
    }
  }
  return absl::OkStatus();
}

using PrecisionFields = std::array<DType, 6>;

constexpr std::array<absl::string_view, 6> kPrecisionNames = {"compute", "params", "grads",
                                                              "reduce",  "master", "moments"};
constexpr PrecisionFields kFp32 = {FP32, FP32, FP32, FP32, FP32, FP32};
// As fp32, but the factors of products are rounded to TF32.
constexpr PrecisionFields kTf32 = {TF32, FP32, FP32, FP32, FP32, FP32};
constexpr PrecisionFields kBf16 = {BF16, BF16, FP32, FP32, FP32, FP32};
// As bf16, but gradients have the type of the parameters, so their messages have half the size.
constexpr PrecisionFields kBf16Grads = {BF16, BF16, BF16, BF16, FP32, FP32};
// As bf16, but moments are bf16 and have half the size.
constexpr PrecisionFields kBf16Moments = {BF16, BF16, FP32, FP32, FP32, BF16};
constexpr PrecisionFields kBf16GradsMoments = {BF16, BF16, BF16, BF16, FP32, BF16};
constexpr PrecisionFields kFp16 = {FP16, FP16, FP32, FP32, FP32, FP32};
constexpr PrecisionFields kFp16Grads = {FP16, FP16, FP16, FP16, FP32, FP32};
constexpr PrecisionFields kFp64 = {FP64, FP64, FP64, FP64, FP64, FP64};

std::string Describe(const PrecisionFields& fields) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < fields.size(); ++i) {
    parts.push_back(absl::StrCat(kPrecisionNames[i], " ", std::string(DTypeName(fields[i]))));
  }
  return absl::StrJoin(parts, ", ");
}

// The key of the payload that marks an error for RefusesPrecision.
constexpr absl::string_view kRefusedPrecision = "weft/refused_precision";

absl::Status ResolvePrecision(Precision* precision, const Device& device) {
  const PrecisionFields given = {precision->compute(), precision->params(), precision->grads(),
                                 precision->reduce(),  precision->master(), precision->moments()};
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string path = absl::StrCat("plan.precision.", kPrecisionNames[i]);
    if (!DType_IsValid(given[i])) return BadField(path, static_cast<int>(given[i]), "FP32, TF32, BF16, FP16 or FP64");
    if (given[i] == TF32 && i > 0) {
      return BadField(path, DType_Name(given[i]),
                      "FP32, BF16, FP16 or FP64; TF32 is for matrix products only (precision.compute)");
    }
    if (given[i] == INT32 || given[i] == EXACT192 || given[i] == UINT8) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " = ", DType_Name(given[i]), " cannot be used for training; supported: FP32, TF32, BF16, FP16, FP64",
          given[i] == EXACT192 ? " (weft uses it for sums with plan.accumulation: EXACT)" : ""));
    }
  }
  double fp32 = 0, bf16 = 0;
  for (const Peak& peak : device.peaks()) {
    if (peak.dtype() == FP32) fp32 = peak.flops_per_second();
    if (peak.dtype() == BF16) bf16 = peak.flops_per_second();
  }
  // A device that only emulates bf16 has about the same rate for bf16 and fp32.
  const bool prefers_bf16 = bf16 > 0 && bf16 >= 1.5 * fp32;
  const std::array<PrecisionFields, 9> candidates = {prefers_bf16 ? kBf16 : kFp32,
                                                     prefers_bf16 ? kFp32 : kBf16,
                                                     kFp64,
                                                     kTf32,
                                                     kBf16Grads,
                                                     kFp16,
                                                     kFp16Grads,
                                                     kBf16Moments,
                                                     kBf16GradsMoments};
  for (const PrecisionFields& candidate : candidates) {
    bool agrees = true;
    for (size_t i = 0; i < given.size(); ++i) agrees = agrees && (given[i] == 0 || given[i] == candidate[i]);
    if (!agrees) continue;
    precision->set_compute(candidate[0]);
    precision->set_params(candidate[1]);
    precision->set_grads(candidate[2]);
    precision->set_reduce(candidate[3]);
    precision->set_master(candidate[4]);
    precision->set_moments(candidate[5]);
    return absl::OkStatus();
  }
  absl::Status refusal = absl::InvalidArgumentError(
      absl::StrCat("plan.precision = (", Describe(given),
                   ") is not supported yet; supported: fp32 throughout, also with compute "
                   "tf32, fp64 throughout, (",
                   Describe(kBf16), "), (", Describe(kFp16), "), (", Describe(kBf16Grads), ") or (",
                   Describe(kFp16Grads), "); if params are bf16, moments may be bf16 too"));
  refusal.SetPayload(kRefusedPrecision, absl::Cord());
  return refusal;
}

}  // namespace

absl::Status ValidateAndResolve(Plan* plan, const Device& device) {
  WEFT_RETURN_IF_ERROR(ValidateMesh(plan->mesh()));
  WEFT_RETURN_IF_ERROR(ResolveSchedule(plan->mutable_schedule()));
  WEFT_RETURN_IF_ERROR(ValidatePartition(plan->partition()));
  WEFT_RETURN_IF_ERROR(ValidateRecompute(plan->recompute()));
  WEFT_RETURN_IF_ERROR(ResolvePrecision(plan->mutable_precision(), device));
  if (!AccumulationMode_IsValid(plan->accumulation())) {
    return BadField("plan.accumulation", static_cast<int>(plan->accumulation()), "IN_ORDER or EXACT");
  }
  if (plan->accumulation() == ACCUMULATION_UNSPECIFIED) plan->set_accumulation(IN_ORDER);
  if (plan->receive_buffers() == 0) plan->set_receive_buffers(1);
  WEFT_RETURN_IF_ERROR(CheckAtLeast("plan.receive_buffers", plan->receive_buffers(), 1));
  if (plan->send_buffers() == 0) plan->set_send_buffers(2);
  WEFT_RETURN_IF_ERROR(CheckAtLeast("plan.send_buffers", plan->send_buffers(), 1));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("plan.gradient_bucket_bytes", plan->gradient_bucket_bytes(), 0));
  if (plan->collective().empty()) plan->set_collective("ring");
  if (!GradientSync_IsValid(plan->gradient_sync())) {
    return BadField("plan.gradient_sync", static_cast<int>(plan->gradient_sync()), "EAGER, LAZY or EAGER_OPT");
  }
  if (!TransferOrder_IsValid(plan->transfer_order())) {
    return BadField("plan.transfer_order", static_cast<int>(plan->transfer_order()),
                    "BY_EDGE, BY_DIRECTION or TOGETHER");
  }
  if (!TransferPlacement_IsValid(plan->transfer_placement())) {
    return BadField("plan.transfer_placement", static_cast<int>(plan->transfer_placement()),
                    "EARLY, DEFERRED or FASTEST");
  }
  if (!BetweenHalves_IsValid(plan->between_halves())) {
    return BadField("plan.between_halves", static_cast<int>(plan->between_halves()),
                    "OWN_ROWS, GATHERED_ROWS or EVERYTHING");
  }
  WEFT_RETURN_IF_ERROR(ValidateParallelism(*plan));
  return ResolveLossScale(plan);
}

bool RefusesPrecision(const absl::Status& status) { return status.GetPayload(kRefusedPrecision).has_value(); }

absl::Status ValidateTogether(const Plan& plan, const Cluster& cluster) {
  const Placement& placement = cluster.placement();
  const int64_t ranks = MeshRanks(plan.mesh());
  if (placement.devices_of_ranks_size() > 0) {
    if (ranks <= placement.devices_of_ranks_size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("plan.mesh has ", ranks, " ranks; cluster '", cluster.name(),
                                                   "' has ", placement.devices_of_ranks_size(),
                                                   " devices in cluster.placement.devices_of_ranks"));
  }
  const int64_t nodes = placement.nodes_size() > 0 ? placement.nodes_size() : cluster.nodes();
  const int64_t per_node = placement.devices_size() > 0 ? placement.devices_size() : cluster.devices_per_node();
  if (ranks <= nodes * per_node) return absl::OkStatus();
  const bool placed = placement.nodes_size() > 0 || placement.devices_size() > 0;
  return absl::InvalidArgumentError(absl::StrCat("plan.mesh has ", ranks, " ranks; cluster '", cluster.name(), "' has ",
                                                 nodes, " * ", per_node, " = ", nodes * per_node,
                                                 placed ? " devices in cluster.placement" : " devices"));
}

}  // namespace weft
