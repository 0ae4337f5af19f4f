#include "proto/io/set_field.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "proto/io/content.h"
#include "proto/io/decimal.h"
#include "proto/io/written_zero.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns an error such as "lr.peak = 'fast' must be a finite number".
absl::Status BadValue(absl::string_view path, absl::string_view value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(path, " = ", Quoted(value), " must be ", expected));
}

// Reads an integer as text protos do. It may be hexadecimal, as in 0x40.
template <typename Integer>
bool ReadInteger(absl::string_view text, Integer* number) {
  if (!BadBeginning(text).empty()) return false;
  absl::string_view digits = text;
  absl::ConsumePrefix(&digits, "-");
  const bool hexadecimal = absl::StartsWithIgnoreCase(digits, "0x");
  return hexadecimal ? absl::SimpleHexAtoi(text, number) : absl::SimpleAtoi(text, number);
}

// Sets a scalar field, or appends to it if it is repeated.
absl::Status SetScalar(const FieldDescriptor& field, absl::string_view path, absl::string_view value,
                       Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const auto store = [&](auto set, auto add, auto item) {
    field.is_repeated() ? (reflection.*add)(message, &field, item) : (reflection.*set)(message, &field, item);
    return absl::OkStatus();
  };
  const auto bad_integer = [&] {
    // If the value has a leading 0, `nearest` also names the number that was probably meant.
    const std::string nearest = NearestInteger(field, value);
    return BadValue(path, value, absl::StrCat(AllowedIntegers(field), nearest.empty() ? BadBeginning(value) : nearest));
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t number = 0;
      if (!ReadInteger(value, &number)) return bad_integer();
      return store(&Reflection::SetInt32, &Reflection::AddInt32, number);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t number = 0;
      if (!ReadInteger(value, &number)) return bad_integer();
      return store(&Reflection::SetInt64, &Reflection::AddInt64, number);
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t number = 0;
      if (!ReadInteger(value, &number)) return bad_integer();
      return store(&Reflection::SetUInt32, &Reflection::AddUInt32, number);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t number = 0;
      if (!ReadInteger(value, &number)) return bad_integer();
      return store(&Reflection::SetUInt64, &Reflection::AddUInt64, number);
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      if (const absl::string_view without = BadBeginning(value); !without.empty()) {
        return BadValue(path, value, absl::StrCat("a finite number", without));
      }
      double number = 0;
      const Decimal read = ReadDecimal(value, &number);
      if (read == Decimal::kNoNumber) return BadValue(path, value, "a finite number");
      if (read == Decimal::kOutOfRange) {
        return BadValue(path, value, absl::StrCat("a number that a double can hold: ", kDecimalRange));
      }
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
        return store(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(number));
      }
      return store(&Reflection::SetDouble, &Reflection::AddDouble, number);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value != "true" && value != "false") return BadValue(path, value, "true or false");
      return store(&Reflection::SetBool, &Reflection::AddBool, value == "true");
    case FieldDescriptor::CPPTYPE_ENUM: {
      if (const EnumValueDescriptor* found = FindEnumValue(*field.enum_type(), value); found != nullptr) {
        return store(&Reflection::SetEnumValue, &Reflection::AddEnumValue, found->number());
      }
      return absl::InvalidArgumentError(
          absl::StrCat(path, " = ", Quoted(value), " is unknown", EnumHelp(field, value)));
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      if (const absl::string_view problem = StringProblem(value); !problem.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
      }
      return store(&Reflection::SetString, &Reflection::AddString, std::string(value));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has fields of its own; name one of them: ", absl::StrJoin(FieldNames(*field.message_type()), ", ")));
}

absl::Status SetLeaf(const FieldDescriptor& field, absl::string_view path, absl::string_view value, Message* message) {
  if (!field.is_repeated()) {
    WEFT_RETURN_IF_ERROR(SetScalar(field, path, value, message));
    return CheckWritten(*message, field, path);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return SetScalar(field, path, value, message);
  message->GetReflection()->ClearField(message, &field);
  // In files, lists are in brackets, as in [1, 2], so accept brackets too.
  if (absl::StartsWith(value, "[") && absl::EndsWith(value, "]") && value.size() > 1) {
    value = absl::StripAsciiWhitespace(value.substr(1, value.size() - 2));
  }
  if (value.empty()) return absl::OkStatus();
  for (absl::string_view item : absl::StrSplit(value, ',')) {
    WEFT_RETURN_IF_ERROR(SetScalar(field, path, absl::StripAsciiWhitespace(item), message));
  }
  return absl::OkStatus();
}

// Sets the field at `rest`. `done` is the part of the path before `rest`, with its dot.
absl::Status SetPath(absl::string_view done, absl::string_view rest, absl::string_view value, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  const Reflection& reflection = *message->GetReflection();
  const size_t dot = rest.find('.');
  absl::string_view part = rest.substr(0, dot);
  const bool last = dot == absl::string_view::npos;
  std::optional<int> index;
  if (const size_t bracket = part.find('['); bracket != absl::string_view::npos) {
    int number = -1;
    absl::string_view inside = part.substr(bracket + 1);
    if (!absl::ConsumeSuffix(&inside, "]") || !ReadInteger(inside, &number) || number < 0) {
      return absl::InvalidArgumentError(absl::StrCat(done, part, ": expected NAME[INDEX] with an index from 0"));
    }
    index = number;
    part = part.substr(0, bracket);
  }
  const FieldDescriptor* field = type.FindFieldByName(std::string(part));
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("unknown field ", Quoted(absl::StrCat(done, part)), " of ",
                                                   type.name(), NameHelp(part, FieldNames(type))));
  }
  const std::string path = absl::StrCat(done, rest.substr(0, dot));
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (index && !(field->is_repeated() && is_message)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": '", field->name(), "' takes no index",
                     field->is_repeated() ? "; give the whole list, separated by commas" : ""));
  }
  if (last && !index && value == kFieldDefault) {
    reflection.ClearField(message, field);
    return absl::OkStatus();
  }
  if (last && !index) return SetLeaf(*field, path, value, message);
  if (!is_message) return absl::InvalidArgumentError(absl::StrCat(path, " has no fields"));
  if (last) return SetScalar(*field, path, value, message);  // The error lists the fields.
  Message* next = nullptr;
  if (field->is_repeated()) {
    const int size = reflection.FieldSize(*message, field);
    if (!index || *index >= size) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, size == 0 ? ": the list is empty"
                          : absl::StrCat(": expected ", field->name(), "[0] to ", field->name(), "[", size - 1, "]")));
    }
    next = reflection.MutableRepeatedMessage(message, field, *index);
  } else {
    next = reflection.MutableMessage(message, field);
  }
  return SetPath(absl::StrCat(path, "."), rest.substr(dot + 1), value, next);
}

absl::Status SetRooted(absl::string_view root, absl::string_view path, absl::string_view value, Message* message) {
  // Changes a copy, so that `message` stays unchanged if there is an error halfway.
  const std::unique_ptr<Message> copy(message->New());
  copy->CopyFrom(*message);
  WEFT_RETURN_IF_ERROR(SetPath(root, path, value, copy.get()));
  message->GetReflection()->Swap(message, copy.get());
  return absl::OkStatus();
}

// Removes `axis`, as if nobody had given its size.
void RemoveAxis(absl::string_view axis, Plan* plan) {
  auto* axes = plan->mutable_mesh()->mutable_axes();
  axes->erase(std::remove_if(axes->begin(), axes->end(), [&](const MeshAxis& a) { return a.name() == axis; }),
              axes->end());
  if (axes->empty()) plan->clear_mesh();
}

// Sets the size of `axis`, or removes it for kFieldDefault. A new axis is inserted before the first axis that `before`
// names, or appended if the mesh has none of them. Axes are listed innermost first: x, data, pipe.
absl::Status SetAxis(absl::string_view alias, absl::string_view axis, absl::string_view value,
                     const std::vector<std::string>& before, Plan* plan) {
  if (value == kFieldDefault) {
    RemoveAxis(axis, plan);
    return absl::OkStatus();
  }
  int64_t size = 0;
  if (!ReadInteger(value, &size) || size < 1) {
    return BadValue(alias, value, absl::StrCat("an integer of at least 1", BadBeginning(value)));
  }
  Mesh* mesh = plan->mutable_mesh();
  int place = mesh->axes_size();
  for (int i = 0; i < mesh->axes_size(); ++i) {
    if (mesh->axes(i).name() == axis) {
      mesh->mutable_axes(i)->set_size(size);
      return absl::OkStatus();
    }
    for (const std::string& name : before) {
      if (mesh->axes(i).name() == name) place = std::min(place, i);
    }
  }
  MeshAxis* added = mesh->add_axes();
  added->set_name(std::string(axis));
  added->set_size(size);
  for (int i = mesh->axes_size() - 1; i > place; --i) mesh->mutable_axes()->SwapElements(i, i - 1);
  return absl::OkStatus();
}

// Refuses axes that other frameworks have but weft does not. A size of 1 has no effect, so it is allowed.
absl::Status RefuseForeignAxis(absl::string_view alias, absl::string_view value) {
  if (value == "1") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(alias, " = ", Quoted(value), ": weft has no ", alias == "cp" ? "context" : "expert", " parallelism",
                   alias == "cp" ? "; allowed: 1; to cut sequences over axis x, set sequence_parallel=true"
                                 : ", because its models are dense; allowed: 1"));
}

// Short names of fields. "schedule" is missing here, because it is also the name of a message.
constexpr std::pair<absl::string_view, absl::string_view> kAliases[] = {
    {"vpp", "plan.schedule.virtual_stages"}, {"virtual", "plan.schedule.virtual_stages"},
    {"mbs", "recipe.microbatch_sequences"},  {"gbs", "recipe.global_batch_sequences"},
    {"seq", "recipe.sequence_length"},       {"waves", "plan.schedule.waves"},
    {"lanes", "plan.schedule.lanes"},        {"limit", "plan.schedule.limit"},
    {"group", "plan.schedule.group"},        {"scaling", "plan.schedule.scaling"},
    {"freeze", "plan.schedule.freeze"},
};

}  // namespace

std::string FullSettingName(absl::string_view name) {
  name = absl::StripAsciiWhitespace(name);
  if (name == "schedule") return "plan.schedule.name";
  for (const auto& [alias, field] : kAliases) {
    if (name == alias) return std::string(field);
  }
  if (absl::StartsWith(name, "recipe.") || absl::StartsWith(name, "plan.")) return std::string(name);
  const std::string first(name.substr(0, name.find_first_of(".[")));
  const bool of_plan = Plan::descriptor()->FindFieldByName(first) != nullptr;
  return of_plan ? absl::StrCat("plan.", name) : std::string(name);
}

absl::Status SetField(Message* message, absl::string_view path, absl::string_view value) {
  return SetRooted("", path, value, message);
}

absl::Status ApplySetting(absl::string_view setting, Recipe* recipe, Plan* plan) {
  const size_t equals = setting.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat("expected NAME=VALUE, got ", Quoted(setting)));
  }
  const absl::string_view name = absl::StripAsciiWhitespace(setting.substr(0, equals));
  const absl::string_view value = absl::StripAsciiWhitespace(setting.substr(equals + 1));
  if (name == "tp") {
    // As in Megatron, tp puts tensor parallelism on axis x alone.
    WEFT_RETURN_IF_ERROR(SetAxis(name, "x", value, {"y", "z", "data", "pipe"}, plan));
    if (value == kFieldDefault) {
      RemoveAxis("y", plan);
      RemoveAxis("z", plan);
      return absl::OkStatus();
    }
    for (MeshAxis& axis : *plan->mutable_mesh()->mutable_axes()) {
      if (axis.name() == "y" || axis.name() == "z") axis.set_size(1);
    }
    return absl::OkStatus();
  }
  if (name == "x") return SetAxis(name, "x", value, {"y", "z", "data", "pipe"}, plan);
  if (name == "y") return SetAxis(name, "y", value, {"z", "data", "pipe"}, plan);
  if (name == "z") return SetAxis(name, "z", value, {"data", "pipe"}, plan);
  if (name == "dp") return SetAxis(name, "data", value, {"pipe"}, plan);
  if (name == "pp") return SetAxis(name, "pipe", value, {}, plan);
  if (name == "cp" || name == "ep") return RefuseForeignAxis(name, value);
  const std::string full = FullSettingName(name);
  if (full == "plan.schedule.name") {
    if (value.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has no value; expected a schedule's name"));
    }
    // Clear the definition, which would be used in place of the name.
    WEFT_RETURN_IF_ERROR(SetRooted("plan.", "schedule.name", value, plan));
    plan->mutable_schedule()->clear_definition();
    return absl::OkStatus();
  }
  if (absl::StartsWith(full, "recipe.")) return SetRooted("recipe.", full.substr(7), value, recipe);
  if (absl::StartsWith(full, "plan.")) return SetRooted("plan.", full.substr(5), value, plan);

  const std::string first(name.substr(0, name.find_first_of(".[")));
  std::vector<std::string> known = {"pp", "dp", "tp", "x", "y", "z"};
  for (const auto& [alias, field] : kAliases) known.emplace_back(alias);
  for (const std::string& field : FieldNames(*Plan::descriptor())) known.push_back(field);
  std::vector<std::string> recipe_fields = FieldNames(*Recipe::descriptor());
  for (const std::string& field : recipe_fields) {
    if (field == first) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown setting ", Quoted(name), "; for a field of the recipe, write 'recipe.", name, "'"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown setting ", Quoted(name), NameHelp(name, known), ", recipe.FIELD, plan.FIELD"));
}

}  // namespace weft
