#include "proto/validate/graph_op_kinds.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/field_check.h"

namespace weft {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

absl::Status CheckRope(const std::string& path, const OpAttributes& attributes) {
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".head_size", attributes.head_size(), 2, kMaxInt32));
  if (attributes.head_size() % 2 != 0) return BadField(path + ".head_size", attributes.head_size(), "even");
  WEFT_RETURN_IF_ERROR(CheckFinite(path + ".base", attributes.base()));
  if (!(attributes.base() > 1)) return BadField(path + ".base", attributes.base(), "above 1");
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".factor", attributes.factor()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".ramp_positions", attributes.ramp_positions()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".magnitude", attributes.magnitude()));
  WEFT_RETURN_IF_ERROR(CheckFinite(path + ".ramp_low", attributes.ramp_low()));
  WEFT_RETURN_IF_ERROR(CheckFinite(path + ".ramp_high", attributes.ramp_high()));
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".dynamic_positions", attributes.dynamic_positions(), 0, kMaxInt32));
  const bool dynamic = attributes.dynamic_positions() > 0;
  if (dynamic && (!(attributes.factor() >= 1) || attributes.head_size() == 2)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".dynamic_positions = ", attributes.dynamic_positions(),
                                                   " needs a factor of at least 1 and a head_size above 2; they are ",
                                                   attributes.factor(), " and ", attributes.head_size()));
  }
  const bool ramp = attributes.ramp_low() != 0 || attributes.ramp_high() != 0 || attributes.ramp_positions() != 0;
  if (dynamic || attributes.factor() == 0) {
    if (!ramp) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ramp_low, ramp_high and ramp_positions need a factor, and no dynamic_positions"));
  }
  if (attributes.ramp_low() < attributes.ramp_high()) return absl::OkStatus();
  return BadField(path + ".ramp_low", attributes.ramp_low(),
                  absl::StrCat("below ramp_high = ", attributes.ramp_high()));
}

// Checks that tokens and targets are masked alike or not at all.
absl::Status CheckMasking(const std::string& path, const ModelGraph& graph, const GraphOp& op) {
  const OpAttributes& attributes = op.attributes();
  if (!(attributes.masked_fraction() >= 0 && attributes.masked_fraction() <= 1)) {
    return BadField(path + ".masked_fraction", attributes.masked_fraction(), "from 0 (off) to 1");
  }
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".mask_token", attributes.mask_token(), 0, graph.vocabulary() - 1));
  if (attributes.masked_fraction() == 0 && attributes.mask_token() != 0) {
    return BadField(path + ".mask_token", attributes.mask_token(), "0 where masked_fraction is 0");
  }
  for (const GraphOp& other : graph.ops()) {
    if (&other == &op) break;
    if (other.kind() != "tokens" && other.kind() != "targets") continue;
    if (other.attributes().masked_fraction() == attributes.masked_fraction() &&
        other.attributes().mask_token() == attributes.mask_token()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(path, ": masked_fraction and mask_token must be those of ",
                                                   Quoted(other.name()), ", ", other.attributes().masked_fraction(),
                                                   " and ", other.attributes().mask_token()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kTokens:
      return "the ids of a tokens op";
    case Kind::kTargets:
      return "the ids of a targets op";
    case Kind::kTimes:
      return "the times of a timesteps op";
    case Kind::kMatrix:
      return "an activation";
    case Kind::kLoss:
      return "a loss";
    case Kind::kParameter:
      return "a parameter";
  }
  return "?";
}

const std::vector<OpKind>& OpKinds() {
  constexpr Kind kTokens = Kind::kTokens, kTargets = Kind::kTargets, kX = Kind::kMatrix, kW = Kind::kParameter;
  static const auto* kinds = new std::vector<OpKind>{
      {"tokens", {}, 0, kTokens, {"masked_fraction", "mask_token"}, Samples::kTokens},
      {"targets", {}, 0, kTargets, {"masked_fraction", "mask_token"}, Samples::kTokens},
      {"embedding", {kTokens, kW}, 0, kX, {}, Samples::kTokens},
      {"position_embedding", {kW}, 0, kX, {}, Samples::kTokens},
      {"type_embedding", {kW}, 0, kX, {}, Samples::kTokens},
      {"add", {kX, kX}, 0, kX, {}},
      {"matmul", {kX, kW, kW}, 1, kX, {"transpose_b"}},
      {"layer_norm", {kX, kW, kW}, 0, kX, {"epsilon"}},
      {"rms_norm", {kX, kW}, 0, kX, {"epsilon"}},
      {"rope",
       {kX},
       0,
       kX,
       {"head_size", "base", "factor", "ramp_low", "ramp_high", "ramp_positions", "magnitude", "dynamic_positions"}},
      {"gelu", {kX}, 0, kX, {"tanh_approximation"}},
      {"swiglu", {kX, kX}, 0, kX, {}},
      {"attention", {kX, kX, kX}, 2, kX, {"heads", "causal", "scale", "dropout", "kv_heads", "window", "qkv_by_head"}},
      {"dropout", {kX}, 0, kX, {"dropout"}},
      {"cross_entropy", {kX, kTargets}, 0, Kind::kLoss, {}, Samples::kTokens},
      {"timesteps", {}, 0, Kind::kTimes, {"diffusion_steps"}, Samples::kImages},
      {"timestep_embedding", {Kind::kTimes}, 0, kX, {"columns", "timestep_scale"}, Samples::kImages},
      {"noisy_image", {}, 0, kX, {"diffusion_steps", "cosine_schedule"}, Samples::kImages},
      {"noise", {}, 0, kX, {}, Samples::kImages},
      {"conv2d", {kX, kW, kW}, 1, kX, {"stride"}, Samples::kImages},
      {"group_norm", {kX, kW, kW}, 0, kX, {"groups", "epsilon"}, Samples::kImages},
      {"silu", {kX}, 0, kX, {}},
      {"concat", {kX, kX}, 0, kX, {}},
      {"upsample", {kX}, 0, kX, {}, Samples::kImages},
      {"add_per_sample", {kX, kX}, 0, kX, {}, Samples::kImages},
      {"scale_shift", {kX, kX}, 0, kX, {}, Samples::kImages},
      {"squared_error", {kX, kX}, 0, Kind::kLoss, {}, Samples::kImages},
  };
  return *kinds;
}

absl::Status CheckOpAttributes(const std::string& op_path, const ModelGraph& graph, const GraphOp& op,
                               const OpKind& kind) {
  const OpAttributes& attributes = op.attributes();
  const std::string path = op_path + ".attributes";
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  attributes.GetReflection()->ListFields(attributes, &fields);
  for (const auto* field : fields) {
    const bool known = std::any_of(kind.attributes.begin(), kind.attributes.end(),
                                   [&](absl::string_view name) { return name == field->name(); });
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ".", field->name(), " is no attribute of ", kind.name,
          kind.attributes.empty() ? "; it has none" : absl::StrCat("; known: ", absl::StrJoin(kind.attributes, ", "))));
    }
  }
  if (kind.name == "layer_norm" || kind.name == "rms_norm" || kind.name == "group_norm") {
    WEFT_RETURN_IF_ERROR(CheckPositive(path + ".epsilon", attributes.epsilon()));
  }
  if (kind.name == "attention") {
    WEFT_RETURN_IF_ERROR(CheckWithin(path + ".heads", attributes.heads(), 1, kMaxInt32));
    WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".scale", attributes.scale()));
    WEFT_RETURN_IF_ERROR(CheckWithin(path + ".window", attributes.window(), 0, kMaxInt32));
    if (attributes.window() > 0 && !attributes.causal()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".window = ", attributes.window(), " needs causal: true"));
    }
  }
  if (kind.name == "rope") WEFT_RETURN_IF_ERROR(CheckRope(path, attributes));
  if (kind.name == "tokens" || kind.name == "targets") WEFT_RETURN_IF_ERROR(CheckMasking(path, graph, op));
  if (kind.name == "group_norm") {
    WEFT_RETURN_IF_ERROR(CheckWithin(path + ".groups", attributes.groups(), 1, kMaxInt32));
  }
  if (kind.name == "timesteps" || kind.name == "noisy_image") {
    WEFT_RETURN_IF_ERROR(CheckWithin(path + ".diffusion_steps", attributes.diffusion_steps(), 1, int64_t{1} << 20));
  }
  if (kind.name == "timestep_embedding") {
    WEFT_RETURN_IF_ERROR(CheckWithin(path + ".columns", attributes.columns(), 2, kMaxInt32));
    WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".timestep_scale", attributes.timestep_scale()));
  }
  if (kind.name == "conv2d") WEFT_RETURN_IF_ERROR(CheckWithin(path + ".stride", attributes.stride(), 0, kLargestSide));
  return CheckProbability(path + ".dropout", attributes.dropout());
}

}  // namespace weft
