#include "tests/accuracy/fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

std::string Given(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNumber:
      return value.text.substr(0, 40);
    case JsonValue::Kind::kString:
      return Quoted(value.text);
    case JsonValue::Kind::kBool:
      return value.boolean ? "true" : "false";
    default:
      return std::string(JsonKindName(value.kind));
  }
}

// Other names that frameworks and papers use for a field. Reading the field also finds a member with such a name.
constexpr struct {
  absl::string_view name, other;
} kAliases[] = {
    {"layers", "num_layers"},
    {"layers", "num_hidden_layers"},
    {"layers", "n_layers"},
    {"hidden", "hidden_size"},
    {"hidden", "d_model"},
    {"hidden", "dim"},
    {"heads", "num_heads"},
    {"heads", "num_attention_heads"},
    {"heads", "n_heads"},
    {"kv_heads", "num_kv_heads"},
    {"kv_heads", "num_key_value_heads"},
    {"kv_heads", "num_query_groups"},
    {"ffn_hidden", "ffn_hidden_size"},
    {"ffn_hidden", "intermediate_size"},
    {"vocab", "vocab_size"},
    {"seq_len", "sequence_length"},
    {"seq_len", "seq_length"},
    {"seq_len", "seqlen"},
    {"gpus", "num_gpus"},
    {"gpus", "n_gpus"},
    {"gpus_per_node", "devices_per_node"},
    {"tp", "tensor_parallel"},
    {"tp", "tensor_parallel_size"},
    {"tp", "tensor_model_parallel_size"},
    {"pp", "pipeline_parallel"},
    {"pp", "pipeline_parallel_size"},
    {"pp", "pipeline_model_parallel_size"},
    {"dp", "data_parallel"},
    {"dp", "data_parallel_size"},
    {"cp", "context_parallel"},
    {"cp", "context_parallel_size"},
    {"ep", "expert_parallel"},
    {"ep", "expert_parallel_size"},
    {"vpp", "vp"},
    {"vpp", "virtual_pipeline_size"},
    {"micro_batch", "micro_batch_size"},
    {"micro_batch", "mbs"},
    {"global_batch", "global_batch_size"},
    {"global_batch", "gbs"},
    {"zero_stage", "zero"},
    {"recompute", "activation_checkpointing"},
};

// True if two values are equal and neither is an object or array; 2 equals 2.0.
bool IsSame(const JsonValue& a, const JsonValue& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == JsonValue::Kind::kNumber && a.Double() && b.Double()) return *a.Double() == *b.Double();
  return a.boolean == b.boolean && a.text == b.text;
}

}  // namespace

Fields::Fields(const JsonValue& object, std::string path) : object_(object), path_(std::move(path)) {}

absl::Status Fields::Text(const char* name, std::string* target, bool required) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue* value, Take(name));
  if (value == nullptr) return required ? Missing(name, "a string") : absl::OkStatus();
  // Text fields may be booleans, as in "recompute": true or "offload": false.
  if (value->kind == JsonValue::Kind::kBool && !required) {
    *target = value->boolean ? "true" : "false";
    return absl::OkStatus();
  }
  if (value->kind != JsonValue::Kind::kString) return Bad(name, *value, "a string");
  if (required && value->text.empty()) return Bad(name, *value, "a string that is not empty");
  *target = value->text;
  return absl::OkStatus();
}

absl::Status Fields::Count(const char* name, std::optional<int64_t>* target, int64_t low) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue* value, Take(name));
  if (value == nullptr) return absl::OkStatus();
  const std::optional<int64_t> number = value->Int64();
  if (!number || *number < low || *number > kMaxCount) {
    return Bad(name, *value, absl::StrCat("a whole number from ", low, " to 2^40, or null"));
  }
  *target = number;
  return absl::OkStatus();
}

absl::Status Fields::Number(const char* name, std::optional<double>* target, bool zero) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue* value, Take(name));
  if (value == nullptr) return absl::OkStatus();
  const std::optional<double> number = value->Double();
  if (!number || !(zero ? *number >= 0 : *number > 0) || *number > kMaxNumber) {
    return Bad(name, *value, absl::StrCat("a number ", zero ? "from 0" : "above 0", " to 1e18, or null"));
  }
  *target = number;
  return absl::OkStatus();
}

absl::Status Fields::Truth(const char* name, std::optional<bool>* target) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue* value, Take(name));
  if (value == nullptr) return absl::OkStatus();
  if (value->kind != JsonValue::Kind::kBool) return Bad(name, *value, "true, false or null");
  *target = value->boolean;
  return absl::OkStatus();
}

absl::StatusOr<const JsonValue*> Fields::Nested(const char* name, JsonValue::Kind kind, bool required) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue* value, Take(name));
  if (value == nullptr) {
    if (!required) return nullptr;
    return Missing(name, JsonKindName(kind));
  }
  if (value->kind != kind) return Bad(name, *value, JsonKindName(kind));
  return value;
}

void Fields::Ignore(std::initializer_list<const char*> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

absl::Status Fields::Rest(std::vector<std::string>* unread, bool slips) {
  std::vector<std::string> absent;
  for (const std::string& name : known_) {
    if (Present(name) == nullptr) absent.push_back(name);
  }
  for (size_t i = 0; i < object_.names.size(); ++i) {
    const std::string& name = object_.names[i];
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (const std::string nearest = Nearest(name, absent); slips && !nearest.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown field ", Quoted(Path(name)), " in line ",
                                                     object_.elements[i].line, "; nearest: '", nearest,
                                                     "'; known: ", absl::StrJoin(known_, ", ")));
    }
    const std::string full = Path(name);
    if (std::find(unread->begin(), unread->end(), full) == unread->end()) unread->push_back(full);
  }
  return absl::OkStatus();
}

absl::Status Fields::Bad(absl::string_view name, const JsonValue& value, absl::string_view allowed) const {
  return absl::InvalidArgumentError(
      absl::StrCat(Path(name), " = ", Given(value), " in line ", value.line, "; allowed: ", allowed));
}

absl::Status Fields::Missing(absl::string_view name, absl::string_view allowed) const {
  return absl::InvalidArgumentError(absl::StrCat(Path(name), " is missing; it must be ", allowed));
}

std::string Fields::Path(absl::string_view name) const { return absl::StrCat(path_, path_.empty() ? "" : ".", name); }

absl::StatusOr<const JsonValue*> Fields::Take(const char* name) {
  known_.emplace_back(name);
  const JsonValue* taken = Present(name);
  std::string taken_name = name;
  for (const auto& alias : kAliases) {
    if (alias.name != name) continue;
    if (object_.Find(alias.other) == nullptr) continue;
    known_.emplace_back(alias.other);
    const JsonValue* value = Present(alias.other);
    if (value == nullptr) continue;
    if (taken == nullptr) {
      taken = value;
      taken_name = std::string(alias.other);
    } else if (!IsSame(*taken, *value)) {
      return absl::InvalidArgumentError(absl::StrCat(Path(taken_name), " = ", Given(*taken), " and ", Path(alias.other),
                                                     " = ", Given(*value), " in line ", value->line,
                                                     "; allowed: one value, they are names of one field"));
    }
  }
  return taken;
}

const JsonValue* Fields::Present(absl::string_view name) const {
  const JsonValue* value = object_.Find(name);
  return value == nullptr || value->kind == JsonValue::Kind::kNull ? nullptr : value;
}

}  // namespace weft
