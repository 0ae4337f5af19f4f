// Sources of the scalings: linear: Chen et al. 2023, arXiv:2306.15595. dynamic: "dynamic NTK-aware" scaling, Peng et
// al. 2023, arXiv:2309.00071, sec. 3.3, with the base that section 3.1 gives for the length at hand. yarn: Peng et al.,
// sec. 3.4: frequencies that turn more than beta_fast times in the original context stay, and those that turn less than
// beta_slow times are divided by the factor. Between them is a ramp over the dimensions. Attention's temperature is the
// factor 0.1 ln(factor) + 1 on cosines and sines. llama3: Llama 3.1's published code; the ramp is over the number of
// turns in the original context.
#include "compiler/models/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

constexpr double kNoLimit = 1e300;
constexpr double kTwoPi = 6.283185307179586476925;

absl::StatusOr<double> Required(const HfConfig& config, absl::string_view name, double low, bool open) {
  if (!config.Has(name)) return config.Refuse(name, "(not set)", "this type of scaling needs it");
  return config.Number(name, low, open, kNoLimit, 0);
}

// The temperature 0.1 m ln(factor) + 1 of yarn, where m is `multiplier`.
double Temperature(double factor, double multiplier) {
  return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

absl::Status ReadLlama3(const HfConfig& scaling, int64_t positions, RopeShape* rope) {
  WEFT_ASSIGN_OR_RETURN(const double low, Required(scaling, "low_freq_factor", 0, true));
  WEFT_ASSIGN_OR_RETURN(const double high, Required(scaling, "high_freq_factor", 0, true));
  WEFT_ASSIGN_OR_RETURN(const int64_t original, scaling.Size("original_max_position_embeddings", kHfLimit, 0));
  if (!(low < high)) {
    return scaling.Refuse("low_freq_factor", absl::StrCat(low),
                          absl::StrCat("it must be below high_freq_factor = ", high));
  }
  rope->attributes.set_ramp_low(low);
  rope->attributes.set_ramp_high(high);
  rope->attributes.set_ramp_positions(static_cast<double>(original));
  return absl::OkStatus();
}

absl::Status ReadYarn(const HfConfig& scaling, int64_t positions, RopeShape* rope) {
  OpAttributes& a = rope->attributes;
  const double factor = a.factor(), size = static_cast<double>(a.head_size());
  WEFT_ASSIGN_OR_RETURN(const int64_t original, scaling.Size("original_max_position_embeddings", kHfLimit, positions));
  WEFT_ASSIGN_OR_RETURN(const double fast, scaling.Number("beta_fast", 0, true, kNoLimit, 32));
  WEFT_ASSIGN_OR_RETURN(const double slow, scaling.Number("beta_slow", 0, true, kNoLimit, 1));
  WEFT_ASSIGN_OR_RETURN(const bool truncate, scaling.Flag("truncate", true));
  WEFT_ASSIGN_OR_RETURN(const double mscale, scaling.Number("mscale", 0, false, kNoLimit, 0));
  WEFT_ASSIGN_OR_RETURN(const double mscale_all, scaling.Number("mscale_all_dim", 0, false, kNoLimit, 0));
  WEFT_ASSIGN_OR_RETURN(const double magnitude, scaling.Number("attention_factor", 0, true, kNoLimit, 0));
  if (!(slow < fast)) {
    return scaling.Refuse("beta_slow", absl::StrCat(slow), absl::StrCat("below beta_fast = ", fast));
  }
  // Returns the (fractional) index of the pair of dimensions that turns `turns` times in the original context.
  const auto pair = [&](double turns) {
    return size * std::log(static_cast<double>(original) / (turns * kTwoPi)) / (2 * std::log(a.base()));
  };
  double first = pair(fast), last = pair(slow);
  if (truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, size - 1);
  if (first == last) last += 0.001;
  if (!(first < last)) {
    return scaling.Refuse(
        "beta_fast", absl::StrCat(fast),
        absl::StrCat("no pair of dimensions lies between beta_fast and beta_slow turns in ", original, " positions"));
  }
  a.set_ramp_low(-last);
  a.set_ramp_high(-first);
  double temperature = Temperature(factor, 1);
  if (mscale > 0 && mscale_all > 0) temperature = Temperature(factor, mscale) / Temperature(factor, mscale_all);
  a.set_magnitude(magnitude > 0 ? magnitude : temperature);
  return absl::OkStatus();
}

absl::StatusOr<RopeShape> ReadScaling(const HfConfig& scaling, RopeShape rope, int64_t positions) {
  WEFT_ASSIGN_OR_RETURN(const std::string old_type, scaling.Text("type", ""));
  WEFT_ASSIGN_OR_RETURN(const std::string type, scaling.Text("rope_type", old_type.empty() ? "default" : old_type));
  if (!old_type.empty() && old_type != type) {
    return scaling.Refuse("type", Quoted(old_type), absl::StrCat("it must equal rope_type = ", Quoted(type)));
  }
  const auto read = [&](auto... names) {
    return scaling.CheckExactNames({"type", "rope_type", "rope_theta", "partial_rotary_factor", names...});
  };
  WEFT_ASSIGN_OR_RETURN(const double partial, scaling.Number("partial_rotary_factor", 0, true, kNoLimit, 1));
  if (partial != 1) return scaling.Refuse("partial_rotary_factor", absl::StrCat(partial), "only 1 is supported");
  if (type == "default") {
    WEFT_RETURN_IF_ERROR(read());
    return rope;
  }
  const std::vector<std::string> types = {"default", "linear", "dynamic", "yarn", "llama3"};
  if (std::find(types.begin(), types.end(), type) == types.end()) {
    return scaling.Refuse(scaling.Has("rope_type") ? "rope_type" : "type", Quoted(type),
                          absl::StrCat("weft does not support this type of scaling", NameHelp(type, types)));
  }
  WEFT_ASSIGN_OR_RETURN(const double factor, Required(scaling, "factor", 1, false));
  rope.attributes.set_factor(factor);
  int64_t original = positions;
  if (type == "linear") {
    WEFT_RETURN_IF_ERROR(read("factor", "original_max_position_embeddings"));
    // Makes the factor divide every frequency: the pairs 0, -1, -2, ... lie at the low end of the ramp or below.
    rope.attributes.set_ramp_low(0);
    rope.attributes.set_ramp_high(1);
  } else if (type == "dynamic") {
    WEFT_RETURN_IF_ERROR(read("factor", "original_max_position_embeddings"));
    WEFT_ASSIGN_OR_RETURN(original, scaling.Size("original_max_position_embeddings", kHfLimit, positions));
    if (rope.attributes.head_size() < 4) {
      return scaling.Refuse("type", "'dynamic'", "it needs heads of at least 4 columns");
    }
    rope.attributes.set_dynamic_positions(original);
  } else if (type == "llama3") {
    WEFT_RETURN_IF_ERROR(read("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"));
    WEFT_RETURN_IF_ERROR(ReadLlama3(scaling, positions, &rope));
  } else {
    WEFT_RETURN_IF_ERROR(read("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate",
                              "mscale", "mscale_all_dim", "attention_factor"));
    WEFT_RETURN_IF_ERROR(ReadYarn(scaling, positions, &rope));
  }
  WEFT_ASSIGN_OR_RETURN(original, scaling.Size("original_max_position_embeddings", kHfLimit, positions));
  const double longest = std::min(factor * static_cast<double>(original), static_cast<double>(kHfLimit));
  rope.positions = std::max(rope.positions, static_cast<int64_t>(longest));
  return rope;
}

// Returns the field as an object, or null if the config does not have the field.
absl::StatusOr<const google::protobuf::Struct*> Object(const HfConfig& config, absl::string_view name) {
  const google::protobuf::Value* value = config.Find(name);
  if (value == nullptr) return nullptr;
  if (value->kind_case() != google::protobuf::Value::kStructValue) {
    return config.Refuse(name, ShowHf(*value), "an object or null is allowed");
  }
  return &value->struct_value();
}

}  // namespace

absl::StatusOr<RopeShape> ReadRope(const HfConfig& config, int64_t head_size, int64_t positions) {
  if (head_size % 2 != 0) {
    return config.Refuse("head_dim", absl::StrCat(head_size), "rotary positions need an even number");
  }
  WEFT_ASSIGN_OR_RETURN(const google::protobuf::Struct* scaling, Object(config, "rope_scaling"));
  WEFT_ASSIGN_OR_RETURN(const google::protobuf::Struct* parameters, Object(config, "rope_parameters"));
  if (scaling != nullptr && parameters != nullptr) {
    return config.Refuse("rope_scaling", "an object", "rope_parameters has the same meaning; give one of the two");
  }
  RopeShape rope;
  rope.positions = positions;
  rope.attributes.set_head_size(head_size);
  WEFT_ASSIGN_OR_RETURN(double base, config.Number("rope_theta", 1, true, kNoLimit, 10000));
  if (parameters != nullptr) {
    WEFT_ASSIGN_OR_RETURN(base,
                          HfConfig(*parameters, "rope_parameters.").Number("rope_theta", 1, true, kNoLimit, base));
  }
  rope.attributes.set_base(base);
  if (parameters != nullptr) return ReadScaling(HfConfig(*parameters, "rope_parameters."), rope, positions);
  if (scaling != nullptr) return ReadScaling(HfConfig(*scaling, "rope_scaling."), rope, positions);
  return rope;
}

}  // namespace weft
