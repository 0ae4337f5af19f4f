// GPT-2. Source of the architecture: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners",
// sec. 2.3. Initial values: normal(initializer_range), residual projections divided by sqrt(2 L), biases 0, norms 1.
#include "absl/strings/str_cat.h"
#include "compiler/models/gpt2_graph.h"
#include "compiler/models/hf_families.h"
#include "proto/util/status.h"

namespace weft {
namespace {

// Sorted by name: fields of GPT2Config.
constexpr HfField kFields[] = {
    {"activation_function", HfUse::kRead},
    {"attn_pdrop", HfUse::kRead},
    {"embd_pdrop", HfUse::kRead},
    {"initializer_range", HfUse::kRead},
    {"layer_norm_epsilon", HfUse::kRead},
    {"n_ctx", HfUse::kRead},
    {"n_embd", HfUse::kRead},
    {"n_head", HfUse::kRead},
    {"n_inner", HfUse::kRead},
    {"n_layer", HfUse::kRead},
    {"n_positions", HfUse::kRead},
    {"n_special", HfUse::kNoEffect},
    {"predict_special_tokens", HfUse::kNoEffect},
    {"reorder_and_upcast_attn", HfUse::kRead},
    {"resid_pdrop", HfUse::kRead},
    {"scale_attn_by_inverse_layer_idx", HfUse::kRead},
    {"scale_attn_weights", HfUse::kRead},
    {"summary_activation", HfUse::kNoEffect},
    {"summary_first_dropout", HfUse::kNoEffect},
    {"summary_proj_to_labels", HfUse::kNoEffect},
    {"summary_type", HfUse::kNoEffect},
    {"summary_use_proj", HfUse::kNoEffect},
};

absl::StatusOr<bool> TanhApproximation(const HfConfig& config) {
  WEFT_ASSIGN_OR_RETURN(std::string name, config.Text("activation_function", "gelu_new"));
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return true;
  if (name == "gelu") return false;
  return config.Refuse("activation_function", absl::StrCat("'", name, "'"),
                       "gelu_new, gelu_pytorch_tanh (tanh approximation) and gelu (exact) are supported");
}

absl::StatusOr<Gpt2Shape> ReadShape(const HfConfig& config) {
  Gpt2Shape shape;
  WEFT_ASSIGN_OR_RETURN(shape.vocabulary, config.Size("vocab_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.width, config.Size("n_embd", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.layers, config.Size("n_layer", kHfLayerLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.heads, config.Size("n_head", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(int64_t context, config.Size("n_ctx", kHfLimit, -1));
  WEFT_ASSIGN_OR_RETURN(shape.positions, config.Size("n_positions", kHfLimit, context > 0 ? context : 0));
  WEFT_ASSIGN_OR_RETURN(shape.inner, config.Size("n_inner", kHfLimit, 4 * shape.width));
  if (context > 0 && context != shape.positions) {
    return config.Refuse("n_ctx", absl::StrCat(context), absl::StrCat("it must equal n_positions = ", shape.positions));
  }
  if (shape.width % shape.heads != 0) {
    return config.Refuse("n_head", absl::StrCat(shape.heads), absl::StrCat("it must divide n_embd = ", shape.width));
  }
  constexpr double kNoLimit = 1e300;
  WEFT_ASSIGN_OR_RETURN(shape.tanh_approximation, TanhApproximation(config));
  WEFT_ASSIGN_OR_RETURN(shape.residual_dropout, config.Number("resid_pdrop", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.embedding_dropout, config.Number("embd_pdrop", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.attention_dropout, config.Number("attn_pdrop", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.epsilon, config.Number("layer_norm_epsilon", 0, true, 1, 1e-5));
  WEFT_ASSIGN_OR_RETURN(shape.init, config.Number("initializer_range", 0, true, kNoLimit, 0.02));
  WEFT_ASSIGN_OR_RETURN(shape.scale_attention, config.Flag("scale_attn_weights", true));
  WEFT_ASSIGN_OR_RETURN(shape.scale_by_inverse_layer, config.Flag("scale_attn_by_inverse_layer_idx", false));
  WEFT_ASSIGN_OR_RETURN(shape.tied_head, config.Flag("tie_word_embeddings", true));
  return shape;
}

}  // namespace

absl::StatusOr<ModelGraph> ImportGpt2(const HfConfig& config, absl::string_view name) {
  WEFT_RETURN_IF_ERROR(config.CheckArchitecture("GPT2LMHeadModel"));
  WEFT_RETURN_IF_ERROR(config.CheckCommonVariants());
  // Attention computes in fp32 whatever the storage (docs/kernels.md), which is what `true` asks for.
  WEFT_RETURN_IF_ERROR(config.Flag("reorder_and_upcast_attn", false).status());
  WEFT_RETURN_IF_ERROR(config.CheckNames(kFields, "GPT-2"));
  WEFT_ASSIGN_OR_RETURN(Gpt2Shape shape, ReadShape(config));
  return BuildGpt2Graph(shape, name);
}

}  // namespace weft
