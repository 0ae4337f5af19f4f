// Reads the config.json of a U-Net (`model_type` "unet") and writes the model as a list of ops. The fields are the
// arguments of the published code (improved-diffusion and guided-diffusion: UNetModel and its script defaults), except
// that `channel_mult` and `attention_resolutions` are lists of numbers. `attention_resolutions` holds sides of levels,
// as in the scripts.
//
// Every field is honored, known to have no effect on training, or refused by name. Required: image_size,
// model_channels, channel_mult, num_res_blocks, attention_resolutions. The others have the published defaults: 3
// channels, 1 head, no dropout, times added, attention ordered by head, 1000 noise levels on a linear schedule.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/models/hf_config.h"
#include "compiler/models/hf_families.h"
#include "compiler/models/unet_graph.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using google::protobuf::Value;

constexpr int64_t kLargestSide = int64_t{1} << 12;
constexpr int64_t kMaxLevels = 12;
constexpr int64_t kMaxBlocks = 1000;

// The known fields. The first fields change the model or are refused for some values. The fields from _name_or_path on
// have no effect on training: the model's name, learned variances (there are none to rescale), sampling, and settings
// that the plan decides.
constexpr absl::string_view kNames[] = {
    "attention_resolutions",
    "channel_mult",
    "class_cond",
    "conv_resample",
    "diffusion_steps",
    "dims",
    "dropout",
    "image_size",
    "in_channels",
    "learn_sigma",
    "model_channels",
    "noise_schedule",
    "norm_epsilon",
    "norm_num_groups",
    "num_classes",
    "num_head_channels",
    "num_heads",
    "num_heads_upsample",
    "num_res_blocks",
    "out_channels",
    "predict_xstart",
    "resblock_updown",
    "rescale_timesteps",
    "timestep_respacing",
    "use_kl",
    "use_new_attention_order",
    "use_scale_shift_norm",
    "_name_or_path",
    "architectures",
    "model_type",
    "rescale_learned_sigmas",
    "sigma_small",
    "transformers_version",
    "use_checkpoint",
    "use_fp16",
};

// Reads a list of `least` to `most` whole numbers in [1, limit].
absl::StatusOr<std::vector<int64_t>> Sizes(const HfConfig& config, absl::string_view name, int64_t limit, int64_t least,
                                           int64_t most) {
  const std::string allowed = absl::StrCat("a list of ", least, " to ", most, " whole numbers from 1 to ", limit,
                                           " is required, such as [1, 2, 2, 2]");
  const Value* value = config.Find(name);
  if (value == nullptr) return config.Refuse(name, "(not set)", allowed);
  if (value->kind_case() != Value::kListValue) return config.Refuse(name, ShowHf(*value), allowed);
  const auto& entries = value->list_value().values();
  if (entries.size() < least || entries.size() > most) {
    return config.Refuse(name, absl::StrCat("a list of ", entries.size()), allowed);
  }
  std::vector<int64_t> sizes;
  for (const Value& entry : entries) {
    const double number = entry.number_value();
    if (entry.kind_case() != Value::kNumberValue || !(number >= 1) || number > static_cast<double>(limit) ||
        number != std::floor(number)) {
      return config.Refuse(absl::StrCat(name, "[", sizes.size(), "]"), ShowHf(entry), allowed);
    }
    sizes.push_back(static_cast<int64_t>(number));
  }
  return sizes;
}

// Refuses fields that ask for another model or another loss than the one that weft builds.
absl::Status CheckVariant(const HfConfig& config, int64_t in_channels) {
  struct Switch {
    absl::string_view name;
    bool only;
    absl::string_view why;
  };
  constexpr Switch kSwitches[] = {
      {"class_cond", false, "weft's model takes no class labels"},
      {"conv_resample", true, "convolutions change the size between levels"},
      {"learn_sigma", false, "the model predicts only noise"},
      {"predict_xstart", false, "the model predicts noise"},
      {"resblock_updown", false, "convolutions change the size between levels"},
      {"use_kl", false, "the loss is the squared error of the noise"},
  };
  for (const Switch& s : kSwitches) {
    WEFT_ASSIGN_OR_RETURN(const bool given, config.Flag(s.name, s.only));
    if (given != s.only) {
      return config.Refuse(s.name, given ? "true" : "false",
                           absl::StrCat("only ", s.only ? "true" : "false", " is supported: ", s.why));
    }
  }
  if (const Value* classes = config.Find("num_classes"); classes != nullptr) {
    return config.Refuse("num_classes", ShowHf(*classes), "only null is supported: weft's model takes no class labels");
  }
  WEFT_ASSIGN_OR_RETURN(const int64_t dims, config.Size("dims", 3, 2));
  if (dims != 2) return config.Refuse("dims", absl::StrCat(dims), "only 2 is supported");
  WEFT_ASSIGN_OR_RETURN(const int64_t out, config.Size("out_channels", kHfLimit, in_channels));
  if (out != in_channels) {
    return config.Refuse("out_channels", absl::StrCat(out),
                         absl::StrCat("it must equal in_channels = ", in_channels, ": the model predicts only noise"));
  }
  WEFT_ASSIGN_OR_RETURN(const std::string respacing, config.Text("timestep_respacing", ""));
  if (!respacing.empty()) {
    return config.Refuse("timestep_respacing", absl::StrCat("'", respacing, "'"),
                         "only '' is supported: weft trains on all timesteps");
  }
  return absl::OkStatus();
}

absl::Status ReadDiffusion(const HfConfig& config, UnetShape* shape) {
  WEFT_ASSIGN_OR_RETURN(shape->diffusion_steps, config.Size("diffusion_steps", int64_t{1} << 20, 1000));
  WEFT_ASSIGN_OR_RETURN(const std::string schedule, config.Text("noise_schedule", "linear"));
  if (schedule != "linear" && schedule != "cosine") {
    return config.Refuse("noise_schedule", Quoted(schedule), "'linear' and 'cosine' are supported");
  }
  shape->cosine_schedule = schedule == "cosine";
  WEFT_ASSIGN_OR_RETURN(const bool rescale, config.Flag("rescale_timesteps", false));
  if (rescale) shape->timestep_scale = 1000.0 / static_cast<double>(shape->diffusion_steps);
  return absl::OkStatus();
}

// Checks that the image can be halved for every level, and that groups and heads divide the columns.
absl::Status CheckSizes(const HfConfig& config, const UnetShape& shape) {
  const int64_t smallest = int64_t{1} << (shape.channel_mult.size() - 1);
  if (shape.image_size % smallest != 0) {
    const int64_t below = shape.image_size / smallest * smallest;
    return config.Refuse(
        "image_size", absl::StrCat(shape.image_size),
        absl::StrCat("it must be a multiple of ", smallest, " for ", shape.channel_mult.size(),
                     " levels; nearest: ", below > 0 ? absl::StrCat(below, ", ") : "", below + smallest));
  }
  std::vector<int64_t> sides;
  for (size_t level = 0; level < shape.channel_mult.size(); ++level) {
    sides.push_back(shape.image_size >> level);
    const int64_t columns = shape.channels * shape.channel_mult[level];
    if (columns > kHfLimit) {
      return config.Refuse(
          absl::StrCat("channel_mult[", level, "]"), absl::StrCat(shape.channel_mult[level]),
          absl::StrCat("channel_mult[", level, "] * model_channels = ", columns, " must be at most ", kHfLimit));
    }
    if (columns % shape.groups != 0) {
      const int64_t unit = shape.groups / std::gcd(shape.groups, shape.channel_mult[level]);
      return config.Refuse("model_channels", absl::StrCat(shape.channels),
                           absl::StrCat("model_channels * channel_mult[", level, "] = ", columns,
                                        " must be a multiple of norm_num_groups = ", shape.groups, "; nearest: ",
                                        std::max<int64_t>(1, (shape.channels + unit / 2) / unit) * unit));
    }
    // The last level always has attention, in the middle block.
    const bool attends = level + 1 == shape.channel_mult.size() ||
                         std::find(shape.attention_sides.begin(), shape.attention_sides.end(), sides.back()) !=
                             shape.attention_sides.end();
    if (!attends) continue;
    for (const auto& [field, divisor] : {std::pair("num_heads", shape.head_channels > 0 ? 1 : shape.heads),
                                         std::pair("num_heads_upsample", shape.head_channels > 0 ? 1 : shape.heads_up),
                                         std::pair("num_head_channels", std::max<int64_t>(1, shape.head_channels))}) {
      if (columns % divisor == 0) continue;
      return config.Refuse(
          field, absl::StrCat(divisor),
          absl::StrCat("it must divide the ", columns, " columns of the level whose images have side ", sides.back()));
    }
  }
  for (int64_t side : shape.attention_sides) {
    if (std::find(sides.begin(), sides.end(), side) != sides.end()) continue;
    return config.Refuse("attention_resolutions", absl::StrCat(side),
                         absl::StrCat("no level has images of this side; the sides are ", absl::StrJoin(sides, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelGraph> ImportUnet(const HfConfig& config, absl::string_view name) {
  WEFT_RETURN_IF_ERROR(config.CheckArchitecture("UNetModel"));
  WEFT_RETURN_IF_ERROR(config.CheckExactNames(kNames));
  UnetShape shape;
  WEFT_ASSIGN_OR_RETURN(shape.image_size, config.Size("image_size", kLargestSide, 0));
  WEFT_ASSIGN_OR_RETURN(shape.in_channels, config.Size("in_channels", kLargestSide, 3));
  WEFT_RETURN_IF_ERROR(CheckVariant(config, shape.in_channels));
  WEFT_ASSIGN_OR_RETURN(shape.channels, config.Size("model_channels", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.channel_mult, Sizes(config, "channel_mult", kHfLimit, 1, kMaxLevels));
  WEFT_ASSIGN_OR_RETURN(shape.blocks, config.Size("num_res_blocks", kMaxBlocks, 0));
  WEFT_ASSIGN_OR_RETURN(shape.attention_sides, Sizes(config, "attention_resolutions", kLargestSide, 0, kMaxLevels));
  WEFT_ASSIGN_OR_RETURN(shape.heads, config.Size("num_heads", kHfLimit, 1));
  WEFT_ASSIGN_OR_RETURN(shape.heads_up, config.Size("num_heads_upsample", kHfLimit, shape.heads));
  if (config.Has("num_head_channels")) {
    WEFT_ASSIGN_OR_RETURN(shape.head_channels, config.Size("num_head_channels", kHfLimit, 0));
  }
  WEFT_ASSIGN_OR_RETURN(const bool new_order, config.Flag("use_new_attention_order", false));
  shape.qkv_by_head = !new_order;
  WEFT_ASSIGN_OR_RETURN(shape.groups, config.Size("norm_num_groups", kHfLimit, 32));
  WEFT_ASSIGN_OR_RETURN(shape.epsilon, config.Number("norm_epsilon", 0, true, 1, 1e-5));
  WEFT_ASSIGN_OR_RETURN(shape.dropout, config.Number("dropout", 0, false, 1, 0));
  WEFT_ASSIGN_OR_RETURN(shape.scale_shift, config.Flag("use_scale_shift_norm", false));
  WEFT_RETURN_IF_ERROR(ReadDiffusion(config, &shape));
  WEFT_RETURN_IF_ERROR(CheckSizes(config, shape));
  return BuildUnetGraph(shape, name);
}

}  // namespace weft
