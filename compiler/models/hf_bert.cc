// BERT with its masked-LM head. All tokens are of type 0: a sequence is one segment. Initial values:
// normal(initializer_range), biases 0, norms 1, as the published code has them.
//
// BERT as a list of ops: post-norm blocks of attention that sees the whole sequence, learned positions and token types,
// a head that predicts masked tokens. Devlin et al. 2018, arXiv:1810.04805.
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
#include "proto/util/suggest.h"

namespace weft {
namespace {

struct BertShape {
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t types = 0;
  int64_t width = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  // Must divide `width`.
  int64_t heads = 0;
  double epsilon = 1e-12;
  Activation activation;
  double hidden_dropout = 0;
  double attention_dropout = 0;
  // Standard deviation of weights.
  double init = 0.02;
  bool tied_head = true;
  int64_t mask_token = 0;
};

// Sec. 3.1: 15 % of the tokens of a sequence are predicted.
constexpr double kBertMaskedFraction = 0.15;

class Builder : public GraphBuilder {
 public:
  Builder(const BertShape& shape, absl::string_view name)
      : GraphBuilder(name, shape.vocabulary, shape.positions), shape_(shape) {
    masking_.set_masked_fraction(kBertMaskedFraction);
    masking_.set_mask_token(shape.mask_token);
  }

  // `full` is the name of the parameters without ".weight" and ".bias".
  std::string Norm(const std::string& name, const std::string& full, const std::string& x) {
    const std::string gamma = Constant(full + ".weight", shape_.width, 1);
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "layer_norm", {x, gamma, Constant(full + ".bias", shape_.width, 0)}, attributes);
  }

  std::string Activate(const std::string& name, const std::string& x) {
    OpAttributes attributes;
    attributes.set_tanh_approximation(shape_.activation.tanh_approximation);
    return Op(name, shape_.activation.kind, {x}, attributes);
  }

  std::string Project(const std::string& name, const std::string& x, int64_t from, int64_t to) {
    return Linear(name, "bert.encoder." + name, x, from, to, shape_.init, true);
  }

  std::string Embeddings() {
    const std::string prefix = "bert.embeddings.";
    const std::string words = Weight(prefix + "word_embeddings.weight", {shape_.vocabulary, shape_.width}, shape_.init);
    HasVocabularyRows();
    const std::string positions =
        Weight(prefix + "position_embeddings.weight", {shape_.positions, shape_.width}, shape_.init);
    const std::string types =
        Weight(prefix + "token_type_embeddings.weight", {shape_.types, shape_.width}, shape_.init);
    const std::string tokens = Op("tokens", "tokens", {}, masking_);
    std::string x = Op("embeddings.words", "embedding", {tokens, words});
    const std::string type = Op("embeddings.types", "type_embedding", {types});
    x = Op("embeddings.words_and_types", "add", {x, type});
    const std::string position = Op("embeddings.positions", "position_embedding", {positions});
    x = Norm("embeddings.norm", prefix + "LayerNorm", Op("embeddings.sum", "add", {x, position}));
    return Dropout("embeddings.dropout", x, shape_.hidden_dropout);
  }

  std::string Block(int64_t block, const std::string& x) {
    const int64_t width = shape_.width;
    const std::string h = absl::StrCat("layer.", block, "."), full = absl::StrCat("bert.encoder.", h);
    OpAttributes attention;
    attention.set_heads(shape_.heads);
    attention.set_kv_heads(shape_.heads);
    attention.set_dropout(shape_.attention_dropout);
    attention.set_scale(1 / std::sqrt(static_cast<double>(width / shape_.heads)));

    const std::string q = Project(h + "attention.self.query", x, width, width);
    const std::string k = Project(h + "attention.self.key", x, width, width);
    const std::string v = Project(h + "attention.self.value", x, width, width);
    const std::string heads = Op(h + "attention.self", "attention", {q, k, v}, attention);
    std::string y = Project(h + "attention.output.dense", heads, width, width);
    y = Dropout(h + "attention.output.dropout", y, shape_.hidden_dropout);
    const std::string middle = Norm(h + "attention.output.norm", full + "attention.output.LayerNorm",
                                    Op(h + "attention.output.residual", "add", {y, x}));

    y = Activate(h + "intermediate.act", Project(h + "intermediate.dense", middle, width, shape_.inner));
    y = Project(h + "output.dense", y, shape_.inner, width);
    y = Dropout(h + "output.dropout", y, shape_.hidden_dropout);
    return Norm(h + "output.norm", full + "output.LayerNorm", Op(h + "output.residual", "add", {y, middle}));
  }

  void Head(std::string x) {
    const std::string prefix = "cls.predictions.";
    x = Linear("predictions.transform.dense", prefix + "transform.dense", x, shape_.width, shape_.width, shape_.init,
               true);
    x = Norm("predictions.transform.norm", prefix + "transform.LayerNorm", Activate("predictions.transform.act", x));
    std::string weight = "bert.embeddings.word_embeddings.weight";
    if (!shape_.tied_head) {
      weight = Weight(prefix + "decoder.weight", {shape_.vocabulary, shape_.width}, shape_.init);
      HasVocabularyRows();
    }
    const std::string bias = Constant(prefix + "bias", shape_.vocabulary, 0);
    HasVocabularyRows();
    Loss("predictions.decoder", {x, weight, bias}, masking_);
  }

  ModelGraph Build() {
    return Layers(
        Embeddings(), shape_.layers, [this](int64_t block, const std::string& x) { return Block(block, x); },
        [this](const std::string& x) { Head(x); });
  }

 private:
  const BertShape& shape_;
  OpAttributes masking_;
};

ModelGraph BuildBertGraph(const BertShape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

// Fields of BertConfig, sorted by name, and mask_token_id, a field of weft's own: Hugging Face keeps it with the
// tokenizer.
constexpr HfField kFields[] = {
    {"attention_probs_dropout_prob", HfUse::kRead},
    {"classifier_dropout", HfUse::kNoEffect},
    {"directionality", HfUse::kRead},
    {"hidden_act", HfUse::kRead},
    {"hidden_dropout_prob", HfUse::kRead},
    {"hidden_size", HfUse::kRead},
    {"initializer_range", HfUse::kRead},
    {"intermediate_size", HfUse::kRead},
    {"layer_norm_eps", HfUse::kRead},
    {"mask_token_id", HfUse::kRead},
    {"max_position_embeddings", HfUse::kRead},
    {"num_attention_heads", HfUse::kRead},
    {"num_hidden_layers", HfUse::kRead},
    {"pooler_fc_size", HfUse::kNoEffect},
    {"pooler_num_attention_heads", HfUse::kNoEffect},
    {"pooler_num_fc_layers", HfUse::kNoEffect},
    {"pooler_size_per_head", HfUse::kNoEffect},
    {"pooler_type", HfUse::kNoEffect},
    {"position_embedding_type", HfUse::kRead},
    {"type_vocab_size", HfUse::kRead},
};

// Id of [MASK] in the vocabularies that were published with BERT.
constexpr int64_t kPublishedMaskToken = 103;

absl::Status CheckVariant(const HfConfig& config) {
  WEFT_RETURN_IF_ERROR(config.CheckArchitecture("BertForMaskedLM"));
  WEFT_RETURN_IF_ERROR(config.CheckCommonVariants());
  WEFT_ASSIGN_OR_RETURN(const bool decoder, config.Flag("is_decoder", false));
  if (decoder) return config.Refuse("is_decoder", "true", "only false is supported: attention sees the whole sequence");
  WEFT_ASSIGN_OR_RETURN(const std::string direction, config.Text("directionality", "bidi"));
  if (direction != "bidi") return config.Refuse("directionality", Quoted(direction), "'bidi' is supported");
  WEFT_ASSIGN_OR_RETURN(const std::string positions, config.Text("position_embedding_type", "absolute"));
  if (positions != "absolute") {
    return config.Refuse("position_embedding_type", Quoted(positions), "'absolute' is supported");
  }
  return config.CheckNames(kFields, "BERT");
}

absl::StatusOr<BertShape> ReadShape(const HfConfig& config) {
  constexpr double kNoLimit = 1e300;
  BertShape shape;
  WEFT_ASSIGN_OR_RETURN(shape.vocabulary, config.Size("vocab_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.width, config.Size("hidden_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.inner, config.Size("intermediate_size", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.layers, config.Size("num_hidden_layers", kHfLayerLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.heads, config.Size("num_attention_heads", kHfLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.positions, config.Size("max_position_embeddings", kHfLimit, 512));
  WEFT_ASSIGN_OR_RETURN(shape.types, config.Size("type_vocab_size", kHfLimit, 2));
  if (shape.width % shape.heads != 0) {
    return config.Refuse("num_attention_heads", absl::StrCat(shape.heads),
                         absl::StrCat("it must divide hidden_size = ", shape.width));
  }
  WEFT_ASSIGN_OR_RETURN(shape.activation, ReadActivation(config, "hidden_act", "gelu"));
  WEFT_ASSIGN_OR_RETURN(shape.hidden_dropout, config.Number("hidden_dropout_prob", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.attention_dropout, config.Number("attention_probs_dropout_prob", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.epsilon, config.Number("layer_norm_eps", 0, true, 1, 1e-12));
  WEFT_ASSIGN_OR_RETURN(shape.init, config.Number("initializer_range", 0, true, kNoLimit, 0.02));
  WEFT_ASSIGN_OR_RETURN(shape.tied_head, config.Flag("tie_word_embeddings", true));
  // Number instead of Size, because token ids begin at 0.
  WEFT_ASSIGN_OR_RETURN(const double token, config.Number("mask_token_id", 0, false, static_cast<double>(kHfLimit),
                                                          static_cast<double>(kPublishedMaskToken)));
  shape.mask_token = static_cast<int64_t>(token);
  if (static_cast<double>(shape.mask_token) != token || shape.mask_token >= shape.vocabulary) {
    return config.Refuse("mask_token_id", config.Has("mask_token_id") ? absl::StrCat(token) : "(not set)",
                         absl::StrCat("a token of the vocabulary of ", shape.vocabulary,
                                      " is required (the default is 103, as in the published vocabularies)"));
  }
  return shape;
}

}  // namespace

absl::StatusOr<ModelGraph> ImportBert(const HfConfig& config, absl::string_view name) {
  WEFT_RETURN_IF_ERROR(CheckVariant(config));
  WEFT_ASSIGN_OR_RETURN(const BertShape shape, ReadShape(config));
  return BuildBertGraph(shape, name);
}

}  // namespace weft
