#include "compiler/models/import_hf.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/models/hf_config.h"
#include "compiler/models/hf_families.h"
#include "proto/io/json_value.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

struct Family {
  absl::string_view model_type;
  absl::string_view architecture;
  absl::StatusOr<ModelGraph> (*import)(const HfConfig& config, absl::string_view name);
};

constexpr Family kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", ImportGpt2},          {"llama", "LlamaForCausalLM", ImportLlama},
    {"mistral", "MistralForCausalLM", ImportMistral}, {"qwen2", "Qwen2ForCausalLM", ImportQwen2},
    {"bert", "BertForMaskedLM", ImportBert},          {"unet", "UNetModel", ImportUnet},
};

// Every config that Hugging Face writes for a language model has at least one of these fields. A model graph has none.
constexpr absl::string_view kDistinctiveFields[] = {
    "model_type",  "architectures",           "transformers_version", "vocab_size",
    "hidden_size", "num_hidden_layers",       "num_attention_heads",  "n_embd",
    "n_layer",     "max_position_embeddings", "quantization_config"};

// Finds the family of a config by model_type. If that is absent, by its only architecture; and if that is absent too,
// the family is GPT-2 if the config has n_embd or n_layer, which only GPT-2 has.
absl::StatusOr<const Family*> FamilyOf(const HfConfig& config) {
  WEFT_ASSIGN_OR_RETURN(const std::string type, config.Text("model_type", ""));
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (family.model_type == type) return &family;
    known.push_back(std::string(family.model_type));
  }
  if (!type.empty())
    return RefuseHf("model_type", Quoted(type), absl::StrCat("weft has no importer for it", NameHelp(type, known)));
  // Several architectures are ambiguous. CheckArchitecture refuses them for any family, so it is called for the first
  // one.
  if (const auto* named = config.Find("architectures"); named != nullptr && named->list_value().values_size() > 1) {
    return config.CheckArchitecture(kFamilies[0].architecture);
  }
  for (const Family& family : kFamilies) {
    if (config.Has("architectures") && config.CheckArchitecture(family.architecture).ok()) return &family;
  }
  if (config.Has("n_embd") || config.Has("n_layer")) return &kFamilies[0];
  return RefuseHf("model_type", "(not set)",
                  absl::StrCat("it is required, because it selects the importer; known: ", absl::StrJoin(known, ", ")));
}

}  // namespace

bool IsHuggingFaceConfig(absl::string_view json) {
  // Uses ParseJson instead of ParseHfConfig, because a config with a value that ParseHfConfig refuses must be
  // recognized too.
  const absl::StatusOr<JsonValue> config = ParseJson(json, "config.json");
  return config.ok() && config->is_object() &&
         std::any_of(std::begin(kDistinctiveFields), std::end(kDistinctiveFields),
                     [&](absl::string_view name) { return config->Find(name) != nullptr; });
}

absl::StatusOr<ModelGraph> ImportHuggingFaceConfig(absl::string_view json, absl::string_view name) {
  WEFT_ASSIGN_OR_RETURN(const google::protobuf::Struct fields, ParseHfConfig(json));
  const HfConfig config(fields);
  WEFT_ASSIGN_OR_RETURN(const Family* family, FamilyOf(config));
  return family->import(config, name);
}

}  // namespace weft
