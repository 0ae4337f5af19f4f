#include "compiler/models/hf_config.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/io/decimal.h"
#include "proto/io/json_value.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// Fields that PretrainedConfig writes for any model, sorted by name.
constexpr HfField kCommon[] = {
    {"_attn_implementation_autoset", HfUse::kNoEffect},
    {"_name_or_path", HfUse::kNoEffect},
    {"_num_labels", HfUse::kNoEffect},
    {"add_cross_attention", HfUse::kRead},
    {"architectures", HfUse::kRead},
    {"bos_token_id", HfUse::kNoEffect},
    {"chunk_size_feed_forward", HfUse::kRead},
    {"cross_attention_hidden_size", HfUse::kNoEffect},
    {"dtype", HfUse::kNoEffect},
    {"eos_token_id", HfUse::kNoEffect},
    {"finetuning_task", HfUse::kNoEffect},
    {"gradient_checkpointing", HfUse::kNoEffect},
    {"id2label", HfUse::kNoEffect},
    {"is_decoder", HfUse::kRead},
    {"is_encoder_decoder", HfUse::kRead},
    {"label2id", HfUse::kNoEffect},
    {"model_type", HfUse::kRead},
    {"output_attentions", HfUse::kNoEffect},
    {"output_hidden_states", HfUse::kNoEffect},
    {"output_past", HfUse::kNoEffect},
    {"pad_token_id", HfUse::kNoEffect},
    {"problem_type", HfUse::kNoEffect},
    {"pruned_heads", HfUse::kRead},
    {"return_dict", HfUse::kNoEffect},
    {"sep_token_id", HfUse::kNoEffect},
    {"task_specific_params", HfUse::kNoEffect},
    {"tie_word_embeddings", HfUse::kRead},
    {"tokenizer_class", HfUse::kNoEffect},
    {"torch_dtype", HfUse::kNoEffect},
    {"torchscript", HfUse::kNoEffect},
    {"transformers_version", HfUse::kNoEffect},
    {"use_bfloat16", HfUse::kNoEffect},
    {"use_cache", HfUse::kNoEffect},
    {"vocab_size", HfUse::kRead},
};

// The alphabetically first field that is not in `known` (the map has no order). A null field counts as absent.
std::string FirstUnknown(const Struct& fields, const std::vector<std::string>& known) {
  std::string unknown;
  for (const auto& [name, value] : fields.fields()) {
    bool found = value.kind_case() == Value::kNullValue;
    for (const std::string& candidate : known) found |= candidate == name;
    if (!found && (unknown.empty() || name < unknown)) unknown = name;
  }
  return unknown;
}

absl::Status Convert(const JsonValue& from, const std::string& path, Value* to) {
  switch (from.kind) {
    case JsonValue::Kind::kNull:
      to->set_null_value(google::protobuf::NULL_VALUE);
      return absl::OkStatus();
    case JsonValue::Kind::kBool:
      to->set_bool_value(from.boolean);
      return absl::OkStatus();
    case JsonValue::Kind::kString:
      to->set_string_value(from.text);
      return absl::OkStatus();
    case JsonValue::Kind::kNumber: {
      const std::optional<double> number = from.Double();
      if (!number) {
        return RefuseHf(path, Quoted(from.text), absl::StrCat("it is out of range; allowed: ", kDecimalRange));
      }
      to->set_number_value(*number);
      return absl::OkStatus();
    }
    case JsonValue::Kind::kArray:
      to->mutable_list_value();
      for (size_t i = 0; i < from.elements.size(); ++i) {
        Value* element = to->mutable_list_value()->add_values();
        WEFT_RETURN_IF_ERROR(Convert(from.elements[i], absl::StrCat(path, "[", i, "]"), element));
      }
      return absl::OkStatus();
    case JsonValue::Kind::kObject:
      to->mutable_struct_value();
      for (size_t i = 0; i < from.elements.size(); ++i) {
        const std::string name = absl::StrCat(path, path.empty() ? "" : ".", Printable(from.names[i]));
        Value& member = (*to->mutable_struct_value()->mutable_fields())[from.names[i]];
        WEFT_RETURN_IF_ERROR(Convert(from.elements[i], name, &member));
      }
      return absl::OkStatus();
  }
  return absl::InternalError("unknown kind of JSON value");
}

std::string DidYouMean(const std::string& unknown, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(unknown, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace

absl::StatusOr<Struct> ParseHfConfig(absl::string_view json) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue parsed, ParseJson(json, "JSON"));
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file must hold a JSON object, but holds ", std::string(JsonKindName(parsed.kind))));
  }
  Value converted;
  WEFT_RETURN_IF_ERROR(Convert(parsed, "", &converted));
  return std::move(*converted.mutable_struct_value());
}

absl::Status RefuseHf(absl::string_view field, absl::string_view given, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(field, " = ", given, "; ", allowed));
}

std::string ShowHf(const Value& value) {
  switch (value.kind_case()) {
    case Value::kNullValue:
      return "null";
    case Value::kNumberValue:
      return absl::StrFormat("%.17g", value.number_value());
    case Value::kStringValue:
      return Quoted(value.string_value());
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

const Value* HfConfig::Find(absl::string_view name) const {
  auto it = fields_.fields().find(std::string(name));
  if (it == fields_.fields().end() || it->second.kind_case() == Value::kNullValue) return nullptr;
  return &it->second;
}

absl::Status HfConfig::Refuse(absl::string_view name, absl::string_view given, absl::string_view allowed) const {
  return RefuseHf(absl::StrCat(path_, name), given, allowed);
}

absl::StatusOr<int64_t> HfConfig::Size(absl::string_view name, int64_t limit, int64_t absent) const {
  const Value* value = Find(name);
  std::string allowed = absl::StrCat("a whole number from 1 to ", limit, " is required");
  if (value == nullptr) {
    if (absent == 0) return Refuse(name, "(not set)", allowed);
    return absent;
  }
  double number = value->number_value();
  if (value->kind_case() != Value::kNumberValue || !(number >= 1) || number > static_cast<double>(limit) ||
      number != std::floor(number)) {
    return Refuse(name, ShowHf(*value), allowed);
  }
  return static_cast<int64_t>(number);
}

absl::StatusOr<double> HfConfig::Number(absl::string_view name, double low, bool open, double high,
                                        double absent) const {
  const Value* value = Find(name);
  if (value == nullptr) return absent;
  double number = value->number_value();
  bool in_range = (open ? number > low : number >= low) && number < high;
  if (value->kind_case() != Value::kNumberValue || !in_range) {
    return Refuse(name, ShowHf(*value),
                  absl::StrFormat("a number in %s%g, %g) is allowed", open ? "(" : "[", low, high));
  }
  return number;
}

absl::StatusOr<bool> HfConfig::Flag(absl::string_view name, bool absent) const {
  const Value* value = Find(name);
  if (value == nullptr) return absent;
  if (value->kind_case() != Value::kBoolValue) return Refuse(name, ShowHf(*value), "true or false is allowed");
  return value->bool_value();
}

absl::StatusOr<std::string> HfConfig::Text(absl::string_view name, absl::string_view absent) const {
  const Value* value = Find(name);
  if (value == nullptr) return std::string(absent);
  if (value->kind_case() != Value::kStringValue) return Refuse(name, ShowHf(*value), "a string is allowed");
  return value->string_value();
}

absl::Status HfConfig::CheckNames(absl::Span<const HfField> own, absl::string_view family) const {
  std::vector<std::string> known;
  for (const HfField& field : own) known.emplace_back(field.name);
  for (const HfField& field : kCommon) known.emplace_back(field.name);
  const std::string unknown = FirstUnknown(fields_, known);
  if (unknown.empty()) return absl::OkStatus();
  if (const Value* value = Find("quantization_config"); value != nullptr) {
    return Refuse("quantization_config", ShowHf(*value),
                  "quantized weights cannot be trained; remove the field to plan the model in plan.precision; "
                  "--weights then needs weights that are not quantized");
  }
  return absl::InvalidArgumentError(absl::StrCat(Quoted(unknown), " is not a known field of a ", family, " config",
                                                 DidYouMean(unknown, known),
                                                 " (if the field has no effect, remove it)"));
}

absl::Status HfConfig::CheckExactNames(absl::Span<const absl::string_view> names) const {
  std::vector<std::string> known;
  for (absl::string_view name : names) known.emplace_back(name);
  const std::string unknown = FirstUnknown(fields_, known);
  if (unknown.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path_, Printable(unknown), " is unknown; known: ", absl::StrJoin(known, ", "), DidYouMean(unknown, known)));
}

absl::Status HfConfig::CheckArchitecture(absl::string_view architecture) const {
  const Value* value = Find("architectures");
  if (value == nullptr) return absl::OkStatus();
  const std::string allowed = absl::StrCat("'", architecture, "' is supported");
  if (value->kind_case() != Value::kListValue) {
    return Refuse("architectures", ShowHf(*value), absl::StrCat("a list is allowed; ", allowed));
  }
  const auto& names = value->list_value().values();
  std::vector<std::string> given;
  for (const Value& name : names) given.push_back(ShowHf(name));
  if (names.size() > 1) {
    return Refuse("architectures", absl::StrJoin(given, ", "),
                  absl::StrCat("a model must have one architecture; ", allowed));
  }
  if (names.empty() || absl::string_view(names[0].string_value()) == architecture) return absl::OkStatus();
  return Refuse("architectures", given[0], allowed);
}

absl::Status HfConfig::CheckCommonVariants() const {
  for (absl::string_view name : {"add_cross_attention", "is_encoder_decoder"}) {
    WEFT_ASSIGN_OR_RETURN(bool on, Flag(name, false));
    if (on) return Refuse(name, "true", "only false is supported: weft has no encoder-decoder models");
  }
  if (const Value* value = Find("pruned_heads");
      value != nullptr && (value->kind_case() != Value::kStructValue || value->struct_value().fields_size() > 0)) {
    return Refuse("pruned_heads", ShowHf(*value), "only an empty object is supported");
  }
  if (const Value* value = Find("chunk_size_feed_forward");
      value != nullptr && (value->kind_case() != Value::kNumberValue || value->number_value() != 0)) {
    return Refuse("chunk_size_feed_forward", ShowHf(*value), "only 0 is supported");
  }
  return absl::OkStatus();
}

}  // namespace weft
