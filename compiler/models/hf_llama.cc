// Llama, Mistral and Qwen2: one graph, three sets of fields. Initial weights of residual projections are divided by
// sqrt(2 L), the recipe's default; published configs only state initializer_range.
//
// The Llama family as a list of ops: pre-norm blocks of causal attention with rotary positions, grouped heads of keys
// and values, and a gated feed-forward layer. Touvron et al. 2023, arXiv:2302.13971, sec. 2.2 (RMS norm: Zhang and
// Sennrich 2019, arXiv:1910.07467; SwiGLU: Shazeer 2020, arXiv:2002.05202; rotary positions: Su et al. 2021,
// arXiv:2104.09864); grouped heads: Ainslie et al. 2023, arXiv:2305.13245. Mistral (Jiang et al. 2023,
// arXiv:2310.06825) and Qwen2 (Yang et al. 2024, arXiv:2407.10671) are the same with windows and with other biases.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/models/graph_builder.h"
#include "compiler/models/hf_activation.h"
#include "compiler/models/hf_families.h"
#include "compiler/models/hf_rope.h"
#include "proto/model_graph.pb.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

struct LlamaShape {
  int64_t vocabulary = 0;
  int64_t width = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  // A multiple of kv_heads.
  int64_t heads = 0;
  int64_t kv_heads = 0;
  // Even; heads x head_size need not be the width.
  int64_t head_size = 0;
  RopeShape rope;
  Activation activation;
  double epsilon = 1e-6;
  double attention_dropout = 0;
  // Standard deviation of weights; residual projections have init / sqrt(2 layers).
  double init = 0.02;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied_head = false;
  // For each layer: the most keys that a query sees, counted backward from its own position; 0 = no limit. Empty = no
  // layer has a limit.
  std::vector<int64_t> windows;
};

constexpr char kEmbeddings[] = "model.embed_tokens.weight";

class Builder : public GraphBuilder {
 public:
  Builder(const LlamaShape& shape, absl::string_view name)
      : GraphBuilder(name, shape.vocabulary, shape.rope.positions), shape_(shape) {}

  std::string Norm(absl::string_view name, const std::string& x) {
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "rms_norm", {x, Constant(absl::StrCat("model.", name, ".weight"), shape_.width, 1)}, attributes);
  }

  std::string Project(const std::string& name, const std::string& x, int64_t from, int64_t to, double normal,
                      bool bias) {
    return Linear(name, absl::StrCat("model.", name), x, from, to, normal, bias);
  }

  std::string Block(int64_t block, const std::string& x) {
    const double init = shape_.init, residual = init / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    const int64_t width = shape_.width, q_width = shape_.heads * shape_.head_size;
    const int64_t kv_width = shape_.kv_heads * shape_.head_size;
    const std::string h = absl::StrCat("layers.", block, ".");
    OpAttributes attention;
    attention.set_heads(shape_.heads);
    attention.set_kv_heads(shape_.kv_heads);
    attention.set_causal(true);
    attention.set_dropout(shape_.attention_dropout);
    attention.set_scale(1 / std::sqrt(static_cast<double>(shape_.head_size)));
    if (!shape_.windows.empty()) attention.set_window(shape_.windows[static_cast<size_t>(block)]);

    const std::string normed = Norm(h + "input_layernorm", x);
    std::string q = Project(h + "self_attn.q_proj", normed, width, q_width, init, shape_.qkv_bias);
    std::string k = Project(h + "self_attn.k_proj", normed, width, kv_width, init, shape_.qkv_bias);
    const std::string v = Project(h + "self_attn.v_proj", normed, width, kv_width, init, shape_.qkv_bias);
    q = Op(h + "self_attn.q_rope", "rope", {q}, shape_.rope.attributes);
    k = Op(h + "self_attn.k_rope", "rope", {k}, shape_.rope.attributes);
    const std::string heads = Op(h + "self_attn.attention", "attention", {q, k, v}, attention);
    std::string y = Project(h + "self_attn.o_proj", heads, q_width, width, residual, shape_.output_bias);
    const std::string middle = Op(h + "self_attn.residual", "add", {x, y});

    const std::string inside = Norm(h + "post_attention_layernorm", middle);
    const std::string gate = Project(h + "mlp.gate_proj", inside, width, shape_.inner, init, shape_.mlp_bias);
    const std::string up = Project(h + "mlp.up_proj", inside, width, shape_.inner, init, shape_.mlp_bias);
    y = Project(h + "mlp.down_proj", Op(h + "mlp.swiglu", shape_.activation.gated_kind, {gate, up}), shape_.inner,
                width, residual, shape_.mlp_bias);
    return Op(h + "mlp.residual", "add", {middle, y});
  }

  std::string Embeddings() {
    const std::string weight = Weight(kEmbeddings, {shape_.vocabulary, shape_.width}, shape_.init);
    HasVocabularyRows();
    const std::string tokens = Op("tokens", "tokens", {});
    return Op("embed_tokens", "embedding", {tokens, weight});
  }

  void Head(const std::string& x) {
    const std::string normed = Norm("norm", x);
    std::string weight = kEmbeddings;
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
  const LlamaShape& shape_;
};

ModelGraph BuildLlamaGraph(const LlamaShape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

constexpr double kNoLimit = 1e300;

// Fields that the three families share. This list and those below are sorted by name.
constexpr HfField kShared[] = {
    {"attention_dropout", HfUse::kRead},   {"hidden_act", HfUse::kRead},
    {"hidden_size", HfUse::kRead},         {"initializer_range", HfUse::kRead},
    {"intermediate_size", HfUse::kRead},   {"max_position_embeddings", HfUse::kRead},
    {"num_attention_heads", HfUse::kRead}, {"num_hidden_layers", HfUse::kRead},
    {"num_key_value_heads", HfUse::kRead}, {"rms_norm_eps", HfUse::kRead},
    {"rope_parameters", HfUse::kRead},     {"rope_scaling", HfUse::kRead},
    {"rope_theta", HfUse::kRead},
};
constexpr HfField kLlama[] = {
    {"attention_bias", HfUse::kRead},
    {"head_dim", HfUse::kRead},
    {"mlp_bias", HfUse::kRead},
    {"pretraining_tp", HfUse::kRead},
};
constexpr HfField kMistral[] = {
    {"head_dim", HfUse::kRead},
    {"sliding_window", HfUse::kRead},
};
constexpr HfField kQwen2[] = {
    {"head_dim", HfUse::kRead},       {"layer_types", HfUse::kRead}, {"max_window_layers", HfUse::kRead},
    {"sliding_window", HfUse::kRead}, {"use_mrope", HfUse::kRead},   {"use_sliding_window", HfUse::kRead},
};

// Values of absent fields that differ between the families.
struct Defaults {
  // 0 = as many as `heads`.
  int64_t kv_heads;
  int64_t positions;
};

absl::Status CheckFields(const HfConfig& config, absl::Span<const HfField> own, absl::string_view family,
                         absl::string_view architecture) {
  std::vector<HfField> fields(std::begin(kShared), std::end(kShared));
  fields.insert(fields.end(), own.begin(), own.end());
  WEFT_RETURN_IF_ERROR(config.CheckArchitecture(architecture));
  WEFT_RETURN_IF_ERROR(config.CheckCommonVariants());
  return config.CheckNames(fields, family);
}

absl::StatusOr<LlamaShape> ReadShape(const HfConfig& config, const Defaults& defaults) {
  LlamaShape shape;
  WEFT_ASSIGN_OR_RETURN(shape.vocabulary, config.Size("vocab_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.width, config.Size("hidden_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.inner, config.Size("intermediate_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.layers, config.Size("num_hidden_layers", kHfLayerLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.heads, config.Size("num_attention_heads", kHfLimit, 0));
  const bool as_many = defaults.kv_heads == 0 || config.IsNull("num_key_value_heads");
  const int64_t kv_heads = as_many ? shape.heads : defaults.kv_heads;
  WEFT_ASSIGN_OR_RETURN(shape.kv_heads, config.Size("num_key_value_heads", kHfLimit, kv_heads));
  if (shape.heads % shape.kv_heads != 0) {
    return config.Refuse("num_key_value_heads", absl::StrCat(shape.kv_heads),
                         absl::StrCat("it must divide num_attention_heads = ", shape.heads));
  }
  if (!config.Has("head_dim") && shape.width % shape.heads != 0) {
    return config.Refuse("num_attention_heads", absl::StrCat(shape.heads),
                         absl::StrCat("it must divide hidden_size = ", shape.width, "; otherwise give head_dim"));
  }
  WEFT_ASSIGN_OR_RETURN(shape.head_size,
                        config.Size("head_dim", kHfLimit, std::max<int64_t>(1, shape.width / shape.heads)));
  WEFT_ASSIGN_OR_RETURN(const int64_t positions, config.Size("max_position_embeddings", kHfLimit, defaults.positions));
  WEFT_ASSIGN_OR_RETURN(shape.rope, ReadRope(config, shape.head_size, positions));
  WEFT_ASSIGN_OR_RETURN(shape.activation, ReadActivation(config, "hidden_act", "silu", /*gated=*/true));
  WEFT_ASSIGN_OR_RETURN(shape.epsilon, config.Number("rms_norm_eps", 0, true, 1, 1e-6));
  WEFT_ASSIGN_OR_RETURN(shape.init, config.Number("initializer_range", 0, true, kNoLimit, 0.02));
  WEFT_ASSIGN_OR_RETURN(shape.attention_dropout, config.Number("attention_dropout", 0, false, 1, 0));
  WEFT_ASSIGN_OR_RETURN(shape.tied_head, config.Flag("tie_word_embeddings", false));
  return shape;
}

// The attention window of each Qwen2 layer (0 = none). Layers with a window are those that layer_types lists; without
// layer_types, those from max_window_layers on.
absl::StatusOr<std::vector<int64_t>> Qwen2Windows(const HfConfig& config, int64_t layers) {
  WEFT_ASSIGN_OR_RETURN(const bool use, config.Flag("use_sliding_window", false));
  WEFT_ASSIGN_OR_RETURN(const int64_t window, config.Size("sliding_window", kHfLimit, 4096));
  // The first layer with a window. 0 is allowed: every layer has one.
  WEFT_ASSIGN_OR_RETURN(const double first, config.Number("max_window_layers", 0, false, kHfLayerLimit + 1, 28));
  if (first != static_cast<double>(static_cast<int64_t>(first))) {
    return config.Refuse("max_window_layers", absl::StrCat(first), "a whole number is required");
  }
  std::vector<int64_t> windows;
  for (int64_t layer = 0; layer < layers; ++layer) {
    windows.push_back(use && static_cast<double>(layer) >= first ? window : 0);
  }
  const google::protobuf::Value* types = config.Find("layer_types");
  if (types == nullptr) return windows;
  if (types->kind_case() != google::protobuf::Value::kListValue || types->list_value().values_size() != layers) {
    return config.Refuse("layer_types", ShowHf(*types), absl::StrCat("a list of ", layers, " names is required"));
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string& type = types->list_value().values(static_cast<int>(layer)).string_value();
    const std::string field = absl::StrCat("layer_types[", layer, "]");
    if (type == "full_attention") {
      windows[layer] = 0;
    } else if (type != "sliding_attention") {
      return config.Refuse(field, ShowHf(types->list_value().values(static_cast<int>(layer))),
                           "'full_attention' and 'sliding_attention' are supported");
    } else if (!use) {
      return config.Refuse(field, Quoted(type), "it needs use_sliding_window = true");
    } else {
      windows[layer] = window;
    }
  }
  return windows;
}

}  // namespace

absl::StatusOr<ModelGraph> ImportLlama(const HfConfig& config, absl::string_view name) {
  WEFT_RETURN_IF_ERROR(CheckFields(config, kLlama, "Llama", "LlamaForCausalLM"));
  WEFT_ASSIGN_OR_RETURN(const int64_t slices, config.Size("pretraining_tp", kHfLimit, 1));
  if (slices != 1) {
    return config.Refuse("pretraining_tp", absl::StrCat(slices),
                         "only 1 is supported: weft does not cut matrix products into slices");
  }
  WEFT_ASSIGN_OR_RETURN(LlamaShape shape, ReadShape(config, {0, 2048}));
  WEFT_ASSIGN_OR_RETURN(shape.qkv_bias, config.Flag("attention_bias", false));
  shape.output_bias = shape.qkv_bias;
  WEFT_ASSIGN_OR_RETURN(shape.mlp_bias, config.Flag("mlp_bias", false));
  return BuildLlamaGraph(shape, name);
}

absl::StatusOr<ModelGraph> ImportMistral(const HfConfig& config, absl::string_view name) {
  WEFT_RETURN_IF_ERROR(CheckFields(config, kMistral, "Mistral", "MistralForCausalLM"));
  WEFT_ASSIGN_OR_RETURN(LlamaShape shape, ReadShape(config, {8, 4096 * 32}));
  if (!config.IsNull("sliding_window")) {
    WEFT_ASSIGN_OR_RETURN(const int64_t window, config.Size("sliding_window", kHfLimit, 4096));
    shape.windows.assign(static_cast<size_t>(shape.layers), window);
  }
  return BuildLlamaGraph(shape, name);
}

absl::StatusOr<ModelGraph> ImportQwen2(const HfConfig& config, absl::string_view name) {
  WEFT_RETURN_IF_ERROR(CheckFields(config, kQwen2, "Qwen2", "Qwen2ForCausalLM"));
  WEFT_ASSIGN_OR_RETURN(const bool multimodal, config.Flag("use_mrope", false));
  if (multimodal) return config.Refuse("use_mrope", "true", "only false is supported: the model reads text");
  WEFT_ASSIGN_OR_RETURN(LlamaShape shape, ReadShape(config, {32, 32768}));
  shape.qkv_bias = true;
  WEFT_ASSIGN_OR_RETURN(shape.windows, Qwen2Windows(config, shape.layers));
  return BuildLlamaGraph(shape, name);
}

}  // namespace weft
