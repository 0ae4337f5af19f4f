#include "compiler/import_hf.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/gpt2_graph.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "proto/status.h"
#include "proto/suggest.h"

namespace weft {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// What is done with a field of a GPT-2 config.
enum class Use {
  kRead,     // changes the model; a reader below takes it
  kNoEffect  // concerns generation, classification heads, storage or bookkeeping, not the language model's training
};

struct Field {
  absl::string_view name;
  Use use;
};

// Sorted by name. Fields of GPT2Config and those that PretrainedConfig writes beside them.
constexpr Field kFields[] = {
    {"_attn_implementation_autoset", Use::kNoEffect},
    {"_name_or_path", Use::kNoEffect},
    {"_num_labels", Use::kNoEffect},
    {"activation_function", Use::kRead},
    {"add_cross_attention", Use::kRead},
    {"architectures", Use::kRead},
    {"attn_pdrop", Use::kRead},
    {"bos_token_id", Use::kNoEffect},
    {"chunk_size_feed_forward", Use::kRead},
    {"cross_attention_hidden_size", Use::kNoEffect},
    {"dtype", Use::kNoEffect},
    {"embd_pdrop", Use::kRead},
    {"eos_token_id", Use::kNoEffect},
    {"finetuning_task", Use::kNoEffect},
    {"gradient_checkpointing", Use::kNoEffect},
    {"id2label", Use::kNoEffect},
    {"initializer_range", Use::kRead},
    {"is_decoder", Use::kNoEffect},
    {"is_encoder_decoder", Use::kRead},
    {"label2id", Use::kNoEffect},
    {"layer_norm_epsilon", Use::kRead},
    {"model_type", Use::kRead},
    {"n_ctx", Use::kRead},
    {"n_embd", Use::kRead},
    {"n_head", Use::kRead},
    {"n_inner", Use::kRead},
    {"n_layer", Use::kRead},
    {"n_positions", Use::kRead},
    {"n_special", Use::kNoEffect},
    {"output_attentions", Use::kNoEffect},
    {"output_hidden_states", Use::kNoEffect},
    {"output_past", Use::kNoEffect},
    {"pad_token_id", Use::kNoEffect},
    {"predict_special_tokens", Use::kNoEffect},
    {"problem_type", Use::kNoEffect},
    {"pruned_heads", Use::kRead},
    {"reorder_and_upcast_attn", Use::kRead},
    {"resid_pdrop", Use::kRead},
    {"return_dict", Use::kNoEffect},
    {"scale_attn_by_inverse_layer_idx", Use::kRead},
    {"scale_attn_weights", Use::kRead},
    {"sep_token_id", Use::kNoEffect},
    {"summary_activation", Use::kNoEffect},
    {"summary_first_dropout", Use::kNoEffect},
    {"summary_proj_to_labels", Use::kNoEffect},
    {"summary_type", Use::kNoEffect},
    {"summary_use_proj", Use::kNoEffect},
    {"task_specific_params", Use::kNoEffect},
    {"tie_word_embeddings", Use::kRead},
    {"tokenizer_class", Use::kNoEffect},
    {"torch_dtype", Use::kNoEffect},
    {"torchscript", Use::kNoEffect},
    {"transformers_version", Use::kNoEffect},
    {"use_bfloat16", Use::kNoEffect},
    {"use_cache", Use::kNoEffect},
    {"vocab_size", Use::kRead},
};

std::string Show(const Value& value) {
  switch (value.kind_case()) {
    case Value::kNullValue:
      return "null";
    case Value::kNumberValue:
      return absl::StrFormat("%.17g", value.number_value());
    case Value::kStringValue:
      return absl::StrCat("'", value.string_value(), "'");
    case Value::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case Value::kStructValue:
      return "an object";
    case Value::kListValue:
      return "a list";
    case Value::KIND_NOT_SET:
      break;
  }
  return "nothing";
}

absl::Status Refuse(absl::string_view field, absl::string_view given, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat("config.json: ", field, " = ", given, "; ", allowed));
}

// The fields of one config. Every reader takes the value for a field that is absent or null.
class Reader {
 public:
  explicit Reader(const Struct& fields) : fields_(fields) {}

  const Value* Find(absl::string_view name) const {
    auto it = fields_.fields().find(std::string(name));
    if (it == fields_.fields().end() || it->second.kind_case() == Value::kNullValue) return nullptr;
    return &it->second;
  }

  // A whole number in [1, limit]; `absent` = 0 means required.
  absl::StatusOr<int64_t> Size(absl::string_view name, int64_t limit, int64_t absent) const {
    const Value* value = Find(name);
    std::string allowed = absl::StrCat("a whole number from 1 to ", limit, " is required");
    if (value == nullptr) {
      if (absent == 0) return Refuse(name, "nothing", allowed);
      return absent;
    }
    double number = value->number_value();
    if (value->kind_case() != Value::kNumberValue || !(number >= 1) || number > static_cast<double>(limit) ||
        number != std::floor(number)) {
      return Refuse(name, Show(*value), allowed);
    }
    return static_cast<int64_t>(number);
  }

  // A number in [low, high), or in (low, high) if `open`.
  absl::StatusOr<double> Number(absl::string_view name, double low, bool open, double high, double absent) const {
    const Value* value = Find(name);
    if (value == nullptr) return absent;
    double number = value->number_value();
    bool in_range = (open ? number > low : number >= low) && number < high;
    if (value->kind_case() != Value::kNumberValue || !in_range) {
      return Refuse(name, Show(*value),
                    absl::StrFormat("a number in %s%g, %g) is allowed", open ? "(" : "[", low, high));
    }
    return number;
  }

  absl::StatusOr<bool> Flag(absl::string_view name, bool absent) const {
    const Value* value = Find(name);
    if (value == nullptr) return absent;
    if (value->kind_case() != Value::kBoolValue) return Refuse(name, Show(*value), "true or false is allowed");
    return value->bool_value();
  }

  absl::StatusOr<std::string> Text(absl::string_view name, absl::string_view absent) const {
    const Value* value = Find(name);
    if (value == nullptr) return std::string(absent);
    if (value->kind_case() != Value::kStringValue) return Refuse(name, Show(*value), "a string is allowed");
    return value->string_value();
  }

 private:
  const Struct& fields_;
};

absl::StatusOr<Struct> ParseJson(absl::string_view json) {
  Struct fields;
  auto status =
      google::protobuf::util::JsonStringToMessage(google::protobuf::StringPiece(json.data(), json.size()), &fields);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("config.json is not a JSON object: ",
                                                   std::string(status.message().data(), status.message().size())));
  }
  return fields;
}

absl::Status CheckNames(const Struct& fields) {
  std::vector<std::string> known;
  for (const Field& field : kFields) known.emplace_back(field.name);
  // The map has no order: report the first unknown name by alphabet.
  std::string unknown;
  for (const auto& [name, value] : fields.fields()) {
    bool found = false;
    for (const std::string& candidate : known) found |= candidate == name;
    if (!found && (unknown.empty() || name < unknown)) unknown = name;
  }
  if (unknown.empty()) return absl::OkStatus();
  std::string nearest = Nearest(unknown, known);
  return absl::InvalidArgumentError(absl::StrCat("config.json: ", Quoted(unknown),
                                                 " is not a field of a GPT-2 config that weft knows",
                                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"),
                                                 " (a field without effect may be removed)"));
}

// Fields that name another model or another computation than the one that is built.
absl::Status CheckVariant(const Reader& reader) {
  WEFT_ASSIGN_OR_RETURN(std::string type, reader.Text("model_type", "gpt2"));
  if (type != "gpt2") return Refuse("model_type", absl::StrCat("'", type, "'"), "'gpt2' is supported");
  if (const Value* value = reader.Find("architectures"); value != nullptr) {
    bool found = value->kind_case() == Value::kListValue && value->list_value().values_size() == 0;
    std::vector<std::string> given;
    for (const Value& entry : value->list_value().values()) {
      given.push_back(Show(entry));
      found |= entry.string_value() == "GPT2LMHeadModel";
    }
    if (!found) return Refuse("architectures", absl::StrJoin(given, ", "), "'GPT2LMHeadModel' is supported");
  }
  for (absl::string_view name : {"add_cross_attention", "is_encoder_decoder"}) {
    WEFT_ASSIGN_OR_RETURN(bool on, reader.Flag(name, false));
    if (on) return Refuse(name, "true", "only false is supported: the model is a decoder on its own");
  }
  // Attention computes in fp32 whatever the storage (docs/kernels.md), which is what `true` asks for.
  WEFT_RETURN_IF_ERROR(reader.Flag("reorder_and_upcast_attn", false).status());
  if (const Value* value = reader.Find("pruned_heads");
      value != nullptr && (value->kind_case() != Value::kStructValue || value->struct_value().fields_size() > 0)) {
    return Refuse("pruned_heads", Show(*value), "only an empty object is supported");
  }
  if (const Value* value = reader.Find("chunk_size_feed_forward");
      value != nullptr && (value->kind_case() != Value::kNumberValue || value->number_value() != 0)) {
    return Refuse("chunk_size_feed_forward", Show(*value), "only 0 is supported");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TanhApproximation(const Reader& reader) {
  WEFT_ASSIGN_OR_RETURN(std::string name, reader.Text("activation_function", "gelu_new"));
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return true;
  if (name == "gelu") return false;
  return Refuse("activation_function", absl::StrCat("'", name, "'"),
                "gelu_new, gelu_pytorch_tanh (tanh approximation) and gelu (exact) are supported");
}

absl::StatusOr<Gpt2Shape> ReadShape(const Reader& reader) {
  constexpr int64_t kLimit = int64_t{1} << 24;
  Gpt2Shape shape;
  WEFT_ASSIGN_OR_RETURN(shape.vocabulary, reader.Size("vocab_size", kLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.width, reader.Size("n_embd", kLimit, 0));
  WEFT_ASSIGN_OR_RETURN(shape.layers, reader.Size("n_layer", 10000, 0));
  WEFT_ASSIGN_OR_RETURN(shape.heads, reader.Size("n_head", kLimit, 0));
  WEFT_ASSIGN_OR_RETURN(int64_t context, reader.Size("n_ctx", kLimit, -1));
  WEFT_ASSIGN_OR_RETURN(shape.positions, reader.Size("n_positions", kLimit, context > 0 ? context : 0));
  WEFT_ASSIGN_OR_RETURN(shape.inner, reader.Size("n_inner", kLimit, 4 * shape.width));
  if (context > 0 && context != shape.positions) {
    return Refuse("n_ctx", absl::StrCat(context), absl::StrCat("it must equal n_positions = ", shape.positions));
  }
  if (shape.width % shape.heads != 0) {
    return Refuse("n_head", absl::StrCat(shape.heads), absl::StrCat("it must divide n_embd = ", shape.width));
  }
  constexpr double kNoLimit = 1e300;
  WEFT_ASSIGN_OR_RETURN(shape.tanh_approximation, TanhApproximation(reader));
  WEFT_ASSIGN_OR_RETURN(shape.residual_dropout, reader.Number("resid_pdrop", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.embedding_dropout, reader.Number("embd_pdrop", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.attention_dropout, reader.Number("attn_pdrop", 0, false, 1, 0.1));
  WEFT_ASSIGN_OR_RETURN(shape.epsilon, reader.Number("layer_norm_epsilon", 0, true, 1, 1e-5));
  WEFT_ASSIGN_OR_RETURN(shape.init, reader.Number("initializer_range", 0, true, kNoLimit, 0.02));
  WEFT_ASSIGN_OR_RETURN(shape.scale_attention, reader.Flag("scale_attn_weights", true));
  WEFT_ASSIGN_OR_RETURN(shape.scale_by_inverse_layer, reader.Flag("scale_attn_by_inverse_layer_idx", false));
  WEFT_ASSIGN_OR_RETURN(shape.tied_head, reader.Flag("tie_word_embeddings", true));
  return shape;
}

}  // namespace

bool IsHuggingFaceConfig(absl::string_view json) {
  auto fields = ParseJson(json);
  return fields.ok() && (fields->fields().contains("model_type") || fields->fields().contains("architectures"));
}

absl::StatusOr<ModelGraph> ImportHuggingFaceConfig(absl::string_view json, absl::string_view name) {
  WEFT_ASSIGN_OR_RETURN(Struct fields, ParseJson(json));
  Reader reader(fields);
  WEFT_RETURN_IF_ERROR(CheckVariant(reader));
  WEFT_RETURN_IF_ERROR(CheckNames(fields));
  WEFT_ASSIGN_OR_RETURN(Gpt2Shape shape, ReadShape(reader));
  return BuildGpt2Graph(shape, name);
}

}  // namespace weft
