#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/field_check.h"
#include "proto/validate/validate.h"

namespace weft {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

absl::Status ResolveSizes(Recipe* recipe) {
  if (recipe->sequence_length() == 0) {
    return absl::InvalidArgumentError(
        "recipe.sequence_length is missing or 0; it is required (weft does not take the model's maximum_positions by "
        "default)");
  }
  WEFT_RETURN_IF_ERROR(CheckWithin("recipe.sequence_length", recipe->sequence_length(), 1, int64_t{1} << 24));
  if (recipe->global_batch_sequences() == 0) {
    return absl::InvalidArgumentError("recipe.global_batch_sequences is missing or 0; it is required");
  }
  WEFT_RETURN_IF_ERROR(CheckWithin("recipe.global_batch_sequences", recipe->global_batch_sequences(), 1, kMaxInt32));
  if (recipe->microbatch_sequences() == 0) recipe->set_microbatch_sequences(1);
  WEFT_RETURN_IF_ERROR(
      CheckWithin("recipe.microbatch_sequences", recipe->microbatch_sequences(), 1, recipe->global_batch_sequences()));
  if (recipe->steps() == 0) recipe->set_steps(1);
  WEFT_RETURN_IF_ERROR(CheckAtLeast("recipe.steps", recipe->steps(), 1));

  // The number of rows of activations must fit in 32 bits. The numbers of samples and tokens of a run must fit in 62
  // bits.
  const int64_t rows = recipe->microbatch_sequences() * recipe->sequence_length();
  WEFT_RETURN_IF_ERROR(CheckWithin("recipe.microbatch_sequences * recipe.sequence_length", rows, 1, kMaxInt32));
  int64_t samples = 0, tokens = 0;
  WEFT_RETURN_IF_ERROR(CheckProduct("recipe.steps * recipe.global_batch_sequences", recipe->steps(),
                                    recipe->global_batch_sequences(), &samples));
  return CheckProduct("tokens of the run = (recipe.steps * recipe.global_batch_sequences) * recipe.sequence_length",
                      samples, recipe->sequence_length(), &tokens);
}

absl::Status ResolveAdamW(AdamW* adamw) {
  if (!adamw->has_beta1()) adamw->set_beta1(0.9);
  if (!adamw->has_beta2()) adamw->set_beta2(0.95);
  if (!adamw->has_epsilon()) adamw->set_epsilon(1e-8);
  if (!adamw->has_weight_decay()) adamw->set_weight_decay(0.1);
  WEFT_RETURN_IF_ERROR(CheckProbability("recipe.adamw.beta1", adamw->beta1()));
  WEFT_RETURN_IF_ERROR(CheckProbability("recipe.adamw.beta2", adamw->beta2()));
  WEFT_RETURN_IF_ERROR(CheckPositive("recipe.adamw.epsilon", adamw->epsilon()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative("recipe.adamw.weight_decay", adamw->weight_decay()));
  for (int i = 0; i < adamw->overrides_size(); ++i) {
    const std::string path = absl::StrCat("recipe.adamw.overrides[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckNotEmpty(absl::StrCat(path, ".pattern"), adamw->overrides(i).pattern()));
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".weight_decay"), adamw->overrides(i).weight_decay()));
  }
  return absl::OkStatus();
}

absl::Status ResolveLearningRate(int64_t steps, LearningRate* lr) {
  if (!lr->has_peak()) lr->set_peak(3e-4);
  if (lr->decay().empty()) lr->set_decay("constant");
  WEFT_RETURN_IF_ERROR(CheckNotNegative("recipe.lr.peak", lr->peak()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("recipe.lr.warmup_steps", lr->warmup_steps(), 0));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("recipe.lr.stable_steps", lr->stable_steps(), 0));
  const std::vector<std::string> decays = {"constant", "cosine", "linear"};
  WEFT_RETURN_IF_ERROR(CheckOneOf("recipe.lr.decay", lr->decay(), decays));
  WEFT_RETURN_IF_ERROR(CheckNotNegative("recipe.lr.min", lr->min()));
  if (lr->min() > lr->peak()) {
    return BadField("recipe.lr.min", lr->min(), absl::StrCat("at most recipe.lr.peak = ", lr->peak()));
  }
  if (lr->stable_steps() > 0 && lr->decay() == "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.lr.stable_steps = ", lr->stable_steps(),
                     " has no effect with recipe.lr.decay = 'constant'; set linear or cosine"));
  }
  // The decay goes from peak to min, so it needs two steps.
  const int64_t most = std::max<int64_t>(0, steps - 2 - lr->warmup_steps());
  if (steps > 0 && lr->stable_steps() > most) {
    return BadField("recipe.lr.stable_steps", lr->stable_steps(),
                    absl::StrCat("at most ", most, ", so that two steps of recipe.steps = ", steps,
                                 " remain for the decay after recipe.lr.warmup_steps = ", lr->warmup_steps()));
  }
  if (lr->min() > 0 && lr->decay() == "constant") {
    return absl::InvalidArgumentError(absl::StrCat(
        "recipe.lr.min = ", lr->min(), " has no effect with recipe.lr.decay = 'constant'; set linear or cosine"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateAndResolve(Recipe* recipe) {
  WEFT_RETURN_IF_ERROR(ResolveSizes(recipe));
  if (recipe->init().has_normal()) {
    WEFT_RETURN_IF_ERROR(CheckDeviation("recipe.init.normal", recipe->init().normal()));
  }
  if (recipe->has_sgd()) {
    WEFT_RETURN_IF_ERROR(CheckProbability("recipe.sgd.momentum", recipe->sgd().momentum()));
    WEFT_RETURN_IF_ERROR(CheckNotNegative("recipe.sgd.weight_decay", recipe->sgd().weight_decay()));
  } else {
    WEFT_RETURN_IF_ERROR(ResolveAdamW(recipe->mutable_adamw()));
  }
  WEFT_RETURN_IF_ERROR(ResolveLearningRate(recipe->steps(), recipe->mutable_lr()));
  if (!recipe->has_clip_norm()) recipe->set_clip_norm(1.0);
  WEFT_RETURN_IF_ERROR(CheckNotNegative("recipe.clip_norm", recipe->clip_norm()));
  if (!WeightRounding_IsValid(recipe->weight_rounding())) {
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.weight_rounding = ", static_cast<int>(recipe->weight_rounding()),
                     " is unknown; allowed: NEAREST or STOCHASTIC"));
  }
  return recipe->has_dropout() ? CheckProbability("recipe.dropout", recipe->dropout()) : absl::OkStatus();
}

absl::StatusOr<int64_t> MicrobatchesPerReplica(const Recipe& recipe, const Mesh& mesh) {
  const int64_t batch = recipe.global_batch_sequences();
  const int64_t microbatch = std::max<int64_t>(1, recipe.microbatch_sequences());
  const int64_t replicas = AxisSize(mesh, "data");
  int64_t unit = 0;
  WEFT_RETURN_IF_ERROR(CheckProduct("recipe.microbatch_sequences * data", microbatch, replicas, &unit));
  if (batch % unit != 0) {
    const int64_t below = batch / unit * unit;
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.global_batch_sequences = ", batch,
                     " must be a multiple of recipe.microbatch_sequences * data = ", microbatch, " * ", replicas, " = ",
                     unit, "; nearest valid: ", below > 0 ? absl::StrCat(below, ", ") : std::string(), below + unit));
  }
  return batch / unit;
}

absl::Status ValidateTogether(const Recipe& recipe, const ModelGraph& graph) {
  if (graph.image_size() > 0) {
    const int64_t pixels = graph.image_size() * graph.image_size();
    if (recipe.sequence_length() == pixels) return absl::OkStatus();
    const std::string needed = absl::StrCat(pixels, ": a sample of model '", graph.name(), "' is an image of ",
                                            graph.image_size(), " x ", graph.image_size(), " pixels");
    if (recipe.sequence_length() == 0) {
      return absl::InvalidArgumentError(absl::StrCat("recipe.sequence_length is missing or 0; it must be ", needed));
    }
    return BadField("recipe.sequence_length", recipe.sequence_length(), needed);
  }
  if (graph.maximum_positions() == 0 || recipe.sequence_length() <= graph.maximum_positions()) return absl::OkStatus();
  return BadField(
      "recipe.sequence_length", recipe.sequence_length(),
      absl::StrCat("at most ", graph.maximum_positions(), ", the maximum_positions of model '", graph.name(), "'"));
}

}  // namespace weft
