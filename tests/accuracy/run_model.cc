#include "tests/accuracy/run_model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/models/graph_builder.h"
#include "compiler/models/import_hf.h"
#include "proto/io/json.h"
#include "proto/util/status.h"

namespace weft {
namespace {

struct Sizes {
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, inner = 0, vocabulary = 0, sequence = 0, window = 0;
};

absl::StatusOr<int64_t> Stated(const std::optional<int64_t>& size, absl::string_view name) {
  if (size) return *size;
  return absl::InvalidArgumentError(absl::StrCat("model.", name, " is not stated"));
}

enum class Architecture { kGpt, kLlama, kBert };

std::vector<std::string> Apart(absl::string_view words) {
  return absl::StrSplit(words, absl::ByAnyChar(" -_()/,;+:.\t"), absl::SkipEmpty());
}

// Checks `words`, the name of an architecture, for a feature that weft lacks, even if the rest of the name is known.
// Returns the reason for the first word that names such a feature; empty = there is none.
absl::string_view WhyNot(absl::string_view words) {
  constexpr absl::string_view kRecurrent = "weft has no state-space, recurrent or linear-attention layers";
  constexpr absl::string_view kLatent = "weft has no multi-head latent attention";
  constexpr absl::string_view kSees = "weft has no encoder of images or sound beside a model of text";
  constexpr absl::string_view kFrozen = "weft trains all weights";
  constexpr absl::string_view kSeveral = "weft trains one model by the loss of the next token";
  constexpr struct {
    absl::string_view word, reason;
  } kOther[] = {
      {"mla", kLatent},
      {"latent", kLatent},
      {"mamba", kRecurrent},
      {"mamba2", kRecurrent},
      {"ssm", kRecurrent},
      {"rwkv", kRecurrent},
      {"retnet", kRecurrent},
      {"hyena", kRecurrent},
      {"deltanet", kRecurrent},
      {"hybrid", kRecurrent},
      {"recurrent", kRecurrent},
      {"vision", kSees},
      {"vl", kSees},
      {"vlm", kSees},
      {"multimodal", kSees},
      {"llava", kSees},
      {"audio", kSees},
      {"lora", kFrozen},
      {"qlora", kFrozen},
      {"peft", kFrozen},
      {"adapter", kFrozen},
      {"adapters", kFrozen},
      {"frozen", kFrozen},
      {"mtp", kSeveral},
      {"dpo", kSeveral},
      {"ppo", kSeveral},
      {"grpo", kSeveral},
      {"rlhf", kSeveral},
      {"distillation", kSeveral},
  };
  for (const std::string& word : Apart(words)) {
    for (const auto& other : kOther) {
      if (word == other.word) return other.reason;
    }
  }
  return "";
}

// True if `words` mean just an ordinary transformer: "dense", "decoder-only transformer". Any other word may mean
// another architecture.
bool IsPlain(absl::string_view words) {
  const std::vector<std::string> apart = Apart(words);
  return !apart.empty() && std::all_of(apart.begin(), apart.end(), [](const std::string& word) {
    return word == "dense" || word == "decoder" || word == "only" || word == "transformer";
  });
}

// Returns the architecture that `kind` names. If the name is just an ordinary transformer, `gated` decides between
// Llama and GPT: true if the inner width is not four times the hidden size, as with gated units.
absl::StatusOr<Architecture> ArchitectureOf(absl::string_view kind, bool gated, std::vector<std::string>* assumptions) {
  constexpr struct {
    absl::string_view word, reason;
  } kRefused[] = {
      {"moe", "weft has no experts"},
      {"mixtral", "weft has no experts"},
      {"expert", "weft has no experts"},
      {"microbench", "it is the time of one layer, not of a training step"},
      {"encoder-decoder", "weft has no decoder that reads an encoder"},
      {"linear attention", "weft has no state-space, recurrent or linear-attention layers"},
      {"linear-attention", "weft has no state-space, recurrent or linear-attention layers"},
  };
  // Architectures that differ from a GPT or a Llama only in sizes and in small details.
  constexpr struct {
    absl::string_view word;
    Architecture architecture;
  } kLike[] = {
      {"llama", Architecture::kLlama},    {"qwen", Architecture::kLlama},     {"mistral", Architecture::kLlama},
      {"gpt", Architecture::kGpt},        {"mpt", Architecture::kGpt},        {"opt", Architecture::kGpt},
      {"bloom", Architecture::kGpt},      {"neox", Architecture::kGpt},       {"nemotron", Architecture::kGpt},
      {"pythia", Architecture::kGpt},     {"falcon", Architecture::kGpt},     {"yi", Architecture::kLlama},
      {"olmo", Architecture::kLlama},     {"phi-3", Architecture::kLlama},    {"gemma", Architecture::kLlama},
      {"internlm", Architecture::kLlama}, {"baichuan", Architecture::kLlama},
  };
  const std::string words =
      absl::StrReplaceAll(absl::AsciiStrToLower(kind.substr(0, 200)), {{"non-moe", ""}, {"not moe", ""}});
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("model.kind is '", kind.substr(0, 80), "'", why));
  };
  for (const auto& refused : kRefused) {
    if (absl::StrContains(words, refused.word)) return refuse(absl::StrCat(": ", refused.reason));
  }
  if (const absl::string_view why = WhyNot(words); !why.empty()) return refuse(absl::StrCat(": ", why));
  if (absl::StartsWith(words, "dense-gpt")) return Architecture::kGpt;
  if (absl::StartsWith(words, "dense-llama")) return Architecture::kLlama;
  if (words == "bert" || absl::StartsWith(words, "dense-bert") || absl::StartsWith(words, "bert ")) {
    return Architecture::kBert;
  }
  for (const auto& like : kLike) {
    if (!absl::StartsWith(words, like.word) && !absl::StartsWith(words, absl::StrCat("dense-", like.word))) continue;
    assumptions->push_back(
        absl::StrCat("'", kind.substr(0, 40), "' as a ", like.architecture == Architecture::kGpt ? "GPT" : "Llama"));
    return like.architecture;
  }
  const bool plain = kind.empty() || IsPlain(words);
  if (plain) {
    const std::string name = kind.empty() ? "of no stated kind" : absl::StrCat("'", kind.substr(0, 40), "'");
    assumptions->push_back(absl::StrCat(name, ", as a ", gated ? "Llama" : "GPT"));
    return gated ? Architecture::kLlama : Architecture::kGpt;
  }
  return refuse("; known: dense-gpt, dense-llama, bert");
}

bool IsGated(const Measurement::Model& model) {
  return model.ffn_hidden && model.hidden && *model.hidden <= (int64_t{1} << 40) / 4 &&
         *model.ffn_hidden != 4 * *model.hidden;
}

std::string BertConfig(const Sizes& s, double dropout) {
  return absl::StrFormat(
      R"({"model_type": "bert", "vocab_size": %d, "hidden_size": %d, "num_hidden_layers": %d,
          "num_attention_heads": %d, "max_position_embeddings": %d, "intermediate_size": %d, "type_vocab_size": 2,
          "hidden_dropout_prob": %s, "attention_probs_dropout_prob": %s})",
      s.vocabulary, s.width, s.layers, s.heads, s.sequence, s.inner, JsonNumber(dropout), JsonNumber(dropout));
}

std::string Gpt2Config(const Sizes& s, double dropout) {
  return absl::StrFormat(
      R"({"model_type": "gpt2", "vocab_size": %d, "n_embd": %d, "n_layer": %d, "n_head": %d, "n_positions": %d,
          "n_inner": %d, "resid_pdrop": %s, "embd_pdrop": %s, "attn_pdrop": %s})",
      s.vocabulary, s.width, s.layers, s.heads, s.sequence, s.inner, JsonNumber(dropout), JsonNumber(dropout),
      JsonNumber(dropout));
}

std::string LlamaConfig(const Sizes& s, bool tied) {
  return absl::StrFormat(
      R"({"model_type": "llama", "vocab_size": %d, "hidden_size": %d, "num_hidden_layers": %d,
          "num_attention_heads": %d, "num_key_value_heads": %d, "max_position_embeddings": %d,
          "intermediate_size": %d, "tie_word_embeddings": %s})",
      s.vocabulary, s.width, s.layers, s.heads, s.kv_heads, s.sequence, s.inner, tied ? "true" : "false");
}

// A GPT whose heads share keys and values (Nemotron-4, arXiv:2402.16819): no biases, rotary positions, an untied head.
// Its squared ReLU moves as many bytes as a GELU. In a parallel block both halves read one norm of the input (Wang and
// Komatsuzaki 2021, GPT-J).
ModelGraph GroupedGpt(const Sizes& s, bool parallel) {
  GraphBuilder b("grouped-gpt", s.vocabulary, s.sequence);
  const double init = 0.02, residual = init / std::sqrt(2.0 * static_cast<double>(s.layers));
  const int64_t head_size = s.width / s.heads, kv_width = s.kv_heads * head_size;
  const auto norm = [&](const std::string& name, const std::string& x) {
    OpAttributes attributes;
    attributes.set_epsilon(1e-5);
    return b.Op(name, "layer_norm",
                {x, b.Constant(name + ".weight", s.width, 1), b.Constant(name + ".bias", s.width, 0)}, attributes);
  };
  const auto linear = [&](const std::string& name, const std::string& x, int64_t from, int64_t to, double scale) {
    return b.Linear(name, name, x, from, to, scale, false);
  };
  OpAttributes rope;
  rope.set_head_size(head_size);
  rope.set_base(10000);
  OpAttributes attention;
  attention.set_heads(s.heads);
  if (s.kv_heads != s.heads) attention.set_kv_heads(s.kv_heads);
  attention.set_causal(true);
  attention.set_window(s.window);
  const std::string table = b.Weight("embed.weight", {s.vocabulary, s.width}, init);
  b.HasVocabularyRows();
  const std::string embedded = b.Op("embed", "embedding", {b.Op("tokens", "tokens", {}), table});
  const auto block = [&](int64_t number, const std::string& x) {
    const std::string h = absl::StrCat("h.", number, ".");
    const std::string normed = norm(h + "norm_1", x);
    std::vector<std::string> inputs;
    if (s.kv_heads == s.heads) {
      inputs = {linear(h + "qkv", normed, s.width, 3 * s.width, init)};
    } else {
      inputs = {b.Op(h + "q_rope", "rope", {linear(h + "q", normed, s.width, s.width, init)}, rope),
                b.Op(h + "k_rope", "rope", {linear(h + "k", normed, s.width, kv_width, init)}, rope),
                linear(h + "v", normed, s.width, kv_width, init)};
    }
    const std::string heads = b.Op(h + "attention", "attention", inputs, attention);
    const std::string middle =
        b.Op(h + "attention_sum", "add", {x, linear(h + "o", heads, s.width, s.width, residual)});
    const std::string wide = linear(h + "up", parallel ? normed : norm(h + "norm_2", middle), s.width, s.inner, init);
    return b.Op(h + "sum", "add",
                {middle, linear(h + "down", b.Op(h + "act", "gelu", {wide}), s.inner, s.width, residual)});
  };
  return b.Layers(embedded, s.layers, block, [&](const std::string& x) {
    const std::string normed = norm("norm", x);
    const std::string head = b.Weight("head.weight", {s.vocabulary, s.width}, init);
    b.HasVocabularyRows();
    b.Loss("head", {normed, head});
  });
}

}  // namespace

void CompleteSizes(Measurement* run, std::vector<std::string>* assumptions) {
  Measurement::Model& model = run->model;
  constexpr int64_t kWidest = int64_t{1} << 20;
  // Only a GPT or a BERT is sure to have an inner width of four times the hidden size. Sizes of other models are not
  // filled in.
  const std::string kind = absl::AsciiStrToLower(model.kind.substr(0, 200));
  const bool four_times = absl::StartsWith(kind, "dense-gpt") || kind == "bert" || absl::StartsWith(kind, "dense-bert");
  if (!four_times || !model.hidden || *model.hidden > kWidest) return;
  const int64_t width = *model.hidden;
  const auto assume = [&](std::optional<int64_t>* size, int64_t value, absl::string_view name) {
    *size = value;
    assumptions->push_back(absl::StrCat(value, " ", name));
  };
  if (!model.layers && model.billions) {
    const double squared = static_cast<double>(width) * static_cast<double>(width);
    const double blocks =
        *model.billions * 1e9 - static_cast<double>(model.vocabulary.value_or(51200)) * static_cast<double>(width);
    if (blocks > 0 && blocks / (12 * squared) < 1e4) {
      assume(&model.layers, std::max<int64_t>(1, std::llround(blocks / (12 * squared))),
             "layers, as its parameters give");
    }
  }
  if (!model.heads) {
    int64_t heads = std::max<int64_t>(1, width / 128);
    const int64_t tensor = std::max<int64_t>(1, run->plan.tp.value_or(1));
    while (heads < width && (width % heads != 0 || heads % tensor != 0)) ++heads;
    if (width % heads == 0) assume(&model.heads, heads, "heads");
  }
  if (!model.ffn_hidden) assume(&model.ffn_hidden, 4 * width, "columns between");
}

int64_t CumulativeStep(const Measurement& run) {
  const auto found = run.extra.find("cumulative_step");
  int64_t step = 0;
  return found != run.extra.end() && absl::SimpleAtoi(found->second, &step) && step > 0 ? step : 0;
}

absl::StatusOr<ModelGraph> ModelOf(const Measurement& run, const Runtime& runtime,
                                   std::vector<std::string>* assumptions) {
  const Measurement::Model& model = run.model;
  WEFT_ASSIGN_OR_RETURN(const Architecture architecture, ArchitectureOf(model.kind, IsGated(model), assumptions));
  Sizes s;
  WEFT_ASSIGN_OR_RETURN(s.layers, Stated(model.layers, "layers"));
  WEFT_ASSIGN_OR_RETURN(s.width, Stated(model.hidden, "hidden"));
  WEFT_ASSIGN_OR_RETURN(s.heads, Stated(model.heads, "heads"));
  WEFT_ASSIGN_OR_RETURN(s.inner, Stated(model.ffn_hidden, "ffn_hidden"));
  s.sequence = model.sequence.value_or(kUsualSequence);
  if (!model.sequence) assumptions->push_back(absl::StrCat("sequences of ", kUsualSequence));
  s.kv_heads = model.kv_heads.value_or(s.heads);
  constexpr int64_t kMaxLayers = 1000;
  if (s.layers > kMaxLayers) {
    return absl::InvalidArgumentError(absl::StrCat("model.layers = ", s.layers, "; allowed here: 1 to ", kMaxLayers));
  }
  const bool llama = architecture == Architecture::kLlama;
  // The usual vocabulary sizes: Llama's, and those of BERT and GPT-2 as Megatron pads them.
  s.vocabulary = model.vocabulary.value_or(llama ? 32000 : architecture == Architecture::kBert ? 30592 : 51200);
  if (!model.vocabulary) assumptions->push_back(absl::StrCat("a vocabulary of ", s.vocabulary));
  if (llama) {
    return ImportHuggingFaceConfig(LlamaConfig(s, absl::StrContains(model.kind, "tied")), run.id);
  }
  if (architecture == Architecture::kBert) return ImportHuggingFaceConfig(BertConfig(s, runtime.dropout()), run.id);
  const int64_t step = CumulativeStep(run);
  const bool parallel = absl::StrContains(model.kind, "parallel block") || step >= 2;
  if (absl::StrContains(model.kind, "sliding window") || step >= 3) {
    s.window = std::max<int64_t>(1, s.sequence / 2);
    assumptions->push_back(absl::StrCat("attention to ", s.window, " tokens"));
  }
  if (s.kv_heads == s.heads && !parallel) return ImportHuggingFaceConfig(Gpt2Config(s, runtime.dropout()), run.id);
  if (s.heads % s.kv_heads != 0 || s.width % s.heads != 0 || s.width / s.heads % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.heads = ", s.heads, " does not fit kv_heads = ", s.kv_heads, " and hidden = ", s.width));
  }
  return GroupedGpt(s, parallel);
}

}  // namespace weft
