#include "executor/state/weight_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace weft::exec {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// '#' in the pattern stands for a number.
bool Matches(absl::string_view pattern, absl::string_view name) {
  const std::vector<absl::string_view> wanted = absl::StrSplit(pattern, '.'), parts = absl::StrSplit(name, '.');
  if (wanted.size() != parts.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (wanted[i] == "#" ? !IsNumber(parts[i]) : wanted[i] != parts[i]) return false;
  }
  return true;
}

}  // namespace

std::string CanonicalWeightName(absl::string_view name) {
  for (absl::string_view prefix : {"transformer.", "model.", "bert."}) {
    if (absl::ConsumePrefix(&name, prefix)) break;
  }
  if (absl::ConsumeSuffix(&name, ".LayerNorm.gamma")) return absl::StrCat(name, ".LayerNorm.weight");
  if (absl::ConsumeSuffix(&name, ".LayerNorm.beta")) return absl::StrCat(name, ".LayerNorm.bias");
  return std::string(name);
}

bool IsNoParameter(absl::string_view canonical) {
  for (absl::string_view pattern : {"h.#.attn.bias", "h.#.attn.masked_bias", "layers.#.self_attn.rotary_emb.inv_freq",
                                    "rotary_emb.inv_freq", "embeddings.position_ids", "pooler.dense.weight",
                                    "pooler.dense.bias", "cls.seq_relationship.weight", "cls.seq_relationship.bias"}) {
    if (Matches(pattern, canonical)) return true;
  }
  return false;
}

std::vector<std::string> TiedTo(absl::string_view canonical) {
  if (canonical == "lm_head.weight") return {"wte.weight", "embed_tokens.weight"};
  if (canonical == "cls.predictions.decoder.weight") return {"embeddings.word_embeddings.weight"};
  if (canonical == "cls.predictions.decoder.bias") return {"cls.predictions.bias"};
  return {};
}

}  // namespace weft::exec
