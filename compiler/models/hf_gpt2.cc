// GPT-2. Source of the architecture: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners",
// sec. 2.3. Initial values: normal(initializer_range), residual projections divided by sqrt(2 L), biases 0, norms 1.
//
// The GPT-2 family as a list of ops: pre-norm blocks of causal attention and a GELU feed-forward layer, learned
// positions, a head that reuses the token embedding unless untied.
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/models/graph_builder.h"
#include "compiler/models/hf_activation.h"
#include "compiler/models/hf_families.h"
#include "proto/model_graph.pb.h"
#include "proto/util/status.h"

namespace weft {
namespace {

struct Gpt2Shape {
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t width = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  // Must divide `width`.
  int64_t heads = 0;
  double epsilon = 1e-5;
  Activation activation;
  double residual_dropout = 0;
  double embedding_dropout = 0;
  double attention_dropout = 0;
  // Standard deviation of weights; residual projections have init / sqrt(2 layers).
  double init = 0.02;
  // `scale_attention` multiplies q.k by 1/sqrt(head size); `scale_by_inverse_layer` multiplies it by 1/(block + 1).
  bool scale_attention = true;
  bool scale_by_inverse_layer = false;
  bool tied_head = true;
};

class Builder : public GraphBuilder {
 public:
  Builder(const Gpt2Shape& shape, absl::string_view name)
      : GraphBuilder(name, shape.vocabulary, shape.positions), shape_(shape) {}

  std::string Norm(absl::string_view name, const std::string& x) {
    std::string full = absl::StrCat("transformer.", name);
    std::string gamma = Constant(absl::StrCat(full, ".weight"), shape_.width, 1);
    std::string beta = Constant(absl::StrCat(full, ".bias"), shape_.width, 0);
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "layer_norm", {x, gamma, beta}, attributes);
  }

  // A linear layer whose weight is [from, to]: its rows are inputs.
  std::string Conv1d(absl::string_view name, const std::string& x, int64_t from, int64_t to, double normal) {
    std::string full = absl::StrCat("transformer.", name);
    std::string weight = Weight(absl::StrCat(full, ".weight"), {from, to}, normal);
    std::string bias = Constant(absl::StrCat(full, ".bias"), to, 0);
    return Op(name, "matmul", {x, weight, bias});
  }

  std::string Embeddings() {
    std::string wte = Weight("transformer.wte.weight", {shape_.vocabulary, shape_.width}, shape_.init);
    HasVocabularyRows();
    std::string wpe = Weight("transformer.wpe.weight", {shape_.positions, shape_.width}, shape_.init);
    std::string tokens = Op("tokens", "tokens", {});
    std::string x = Op("wte", "embedding", {tokens, wte});
    std::string positions = Op("wpe", "position_embedding", {wpe});
    return Dropout("drop", Op("embeddings", "add", {x, positions}), shape_.embedding_dropout);
  }

  std::string Block(int64_t block, const std::string& x) {
    const int64_t width = shape_.width;
    const double residual = shape_.init / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    std::string h = absl::StrCat("h.", block, ".");
    OpAttributes attention;
    attention.set_heads(shape_.heads);
    attention.set_causal(true);
    attention.set_dropout(shape_.attention_dropout);
    double scale = shape_.scale_attention ? 1 / std::sqrt(static_cast<double>(width / shape_.heads)) : 1;
    if (shape_.scale_by_inverse_layer) scale /= static_cast<double>(block + 1);
    attention.set_scale(scale);

    std::string qkv =
        Conv1d(absl::StrCat(h, "attn.c_attn"), Norm(absl::StrCat(h, "ln_1"), x), width, 3 * width, shape_.init);
    std::string heads = Op(absl::StrCat(h, "attn.attention"), "attention", {qkv}, attention);
    std::string y = Conv1d(absl::StrCat(h, "attn.c_proj"), heads, width, width, residual);
    y = Dropout(absl::StrCat(h, "attn.resid_dropout"), y, shape_.residual_dropout);
    std::string middle = Op(absl::StrCat(h, "attn.residual"), "add", {x, y});

    std::string wide =
        Conv1d(absl::StrCat(h, "mlp.c_fc"), Norm(absl::StrCat(h, "ln_2"), middle), width, shape_.inner, shape_.init);
    OpAttributes activation;
    activation.set_tanh_approximation(shape_.activation.tanh_approximation);
    wide = Op(absl::StrCat(h, "mlp.act"), shape_.activation.kind, {wide}, activation);
    y = Conv1d(absl::StrCat(h, "mlp.c_proj"), wide, shape_.inner, width, residual);
    y = Dropout(absl::StrCat(h, "mlp.dropout"), y, shape_.residual_dropout);
    return Op(absl::StrCat(h, "mlp.residual"), "add", {middle, y});
  }

  void Head(const std::string& x) {
    std::string normed = Norm("ln_f", x);
    std::string weight = "transformer.wte.weight";
    if (!shape_.tied_head) {
      weight = Weight("lm_head.weight", {shape_.vocabulary, shape_.width}, shape_.init);
      HasVocabularyRows();
    }
    Loss("lm_head", {normed, weight});
  }

  ModelGraph Build() {
    return Layers(
        Embeddings(), shape_.layers, [this](int64_t block, const std::string& x) { return Block(block, x); },
        [this](const std::string& x) { Head(x); });
  }

 private:
  const Gpt2Shape& shape_;
};

ModelGraph BuildGpt2Graph(const Gpt2Shape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

// Fields of GPT2Config, sorted by name.
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
  WEFT_ASSIGN_OR_RETURN(shape.activation, ReadActivation(config, "activation_function", "gelu_new"));
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
  // `true` asks for attention in fp32. Attention always computes in fp32, whatever type its operands are stored in
  // (docs/kernels.md), so the value has no effect.
  WEFT_RETURN_IF_ERROR(config.Flag("reorder_and_upcast_attn", false).status());
  WEFT_RETURN_IF_ERROR(config.CheckNames(kFields, "GPT-2"));
  WEFT_ASSIGN_OR_RETURN(Gpt2Shape shape, ReadShape(config));
  return BuildGpt2Graph(shape, name);
}

}  // namespace weft
