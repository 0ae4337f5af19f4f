// BERT with its masked-LM head (bert_graph.h). All tokens are of type 0: a sequence is one segment. Initial values:
// normal(initializer_range), biases 0, norms 1, as the published code has them.
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/bert_graph.h"
#include "compiler/models/hf_families.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

// Sorted by name: fields of BertConfig, and our own mask_token_id, which Hugging Face keeps with the tokenizer.
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

// [MASK] of the vocabularies that were published with BERT.
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

absl::StatusOr<bool> TanhApproximation(const HfConfig& config) {
  WEFT_ASSIGN_OR_RETURN(std::string name, config.Text("hidden_act", "gelu"));
  if (name == "gelu") return false;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return true;
  return config.Refuse("hidden_act", Quoted(name),
                       "gelu (exact), gelu_new and gelu_pytorch_tanh (tanh approximation) are supported");
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
  WEFT_ASSIGN_OR_RETURN(shape.tanh_approximation, TanhApproximation(config));
  WEFT_ASSIGN_OR_RETURN(shape.hidden_dropout, config.Number("hidden_dropout_prob", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.attention_dropout, config.Number("attention_probs_dropout_prob", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.epsilon, config.Number("layer_norm_eps", 0, true, 1, 1e-12));
  WEFT_ASSIGN_OR_RETURN(shape.init, config.Number("initializer_range", 0, true, kNoLimit, 0.02));
  WEFT_ASSIGN_OR_RETURN(shape.tied_head, config.Flag("tie_word_embeddings", true));
  // Token ids begin at 0.
  WEFT_ASSIGN_OR_RETURN(const double token, config.Number("mask_token_id", 0, false, static_cast<double>(kHfLimit),
                                                          static_cast<double>(kPublishedMaskToken)));
  shape.mask_token = static_cast<int64_t>(token);
  if (static_cast<double>(shape.mask_token) != token || shape.mask_token >= shape.vocabulary) {
    return config.Refuse("mask_token_id", config.Has("mask_token_id") ? absl::StrCat(token) : "nothing",
                         absl::StrCat("a token of the vocabulary of ", shape.vocabulary,
                                      " is required (absent means 103, the one of the published vocabularies)"));
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
