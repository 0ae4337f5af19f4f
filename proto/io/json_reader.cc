#include "proto/io/json_reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "proto/io/content.h"
#include "proto/io/decimal.h"
#include "proto/io/json_value.h"
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

class MessageFiller {
 public:
  explicit MessageFiller(absl::string_view source) : source_(source) {}

  absl::Status Fill(const JsonValue& value, const std::string& path, Message* message) {
    if (!value.is_object()) return Error(value, path, "expected an object");
    const Descriptor& type = *message->GetDescriptor();
    const Reflection& reflection = *message->GetReflection();
    // The fields seen so far. "a_b" and "aB" name the same field, and members of one oneof exclude each other.
    std::set<const FieldDescriptor*> seen;
    std::map<const google::protobuf::OneofDescriptor*, const FieldDescriptor*> of_oneof;
    for (size_t i = 0; i < value.names.size(); ++i) {
      const std::string& name = value.names[i];
      const JsonValue& member = value.elements[i];
      const FieldDescriptor* field = type.FindFieldByName(name);
      if (field == nullptr) field = FieldByJsonName(type, name);
      if (field == nullptr) {
        return Error(member, path, absl::StrCat("unknown field ", Quoted(name), NameHelp(name, FieldNames(type))));
      }
      const std::string field_path = absl::StrCat(path, ".", field->name());
      if (!seen.insert(field).second) return ErrorText(member, field_path, "given twice");
      if (member.kind == JsonValue::Kind::kNull) continue;
      if (const auto* oneof = field->real_containing_oneof(); oneof != nullptr) {
        const FieldDescriptor*& first = of_oneof[oneof];
        if (first != nullptr) return ErrorText(member, field_path, OneofProblem(*first));
        first = field;
      }
      if (!field->is_repeated()) {
        WEFT_RETURN_IF_ERROR(FillOne(member, field_path, *field, reflection, message));
        if (const absl::Status zero = CheckWritten(*message, *field, field_path); !zero.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat(source_, ":", member.line, ":", member.column, ": ", zero.message()));
        }
        continue;
      }
      if (!member.is_array()) return Error(member, field_path, "expected an array");
      for (size_t k = 0; k < member.elements.size(); ++k) {
        WEFT_RETURN_IF_ERROR(
            FillOne(member.elements[k], absl::StrCat(field_path, "[", k, "]"), *field, reflection, message));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ErrorText(const JsonValue& value, absl::string_view path, absl::string_view message) const {
    return absl::InvalidArgumentError(
        absl::StrCat(source_, ":", value.line, ":", value.column, ": ", path, ": ", message));
  }

  // Returns an error. If `expected` begins with "expected", adds what was found instead.
  absl::Status Error(const JsonValue& value, absl::string_view path, absl::string_view expected) const {
    const bool names_it = expected.substr(0, 8) != "expected";
    std::string got;
    if (!names_it) got = absl::StrCat(", got ", JsonKindName(value.kind));
    if (!names_it && value.kind == JsonValue::Kind::kNumber) got = absl::StrCat(", got ", value.text.substr(0, 40));
    if (!names_it && value.kind == JsonValue::Kind::kString) got = absl::StrCat(", got ", Quoted(value.text));
    return ErrorText(value, path, absl::StrCat(expected, got));
  }

  absl::Status IntegerError(const JsonValue& value, absl::string_view path, const FieldDescriptor& field) const {
    const std::string nearest = NearestInteger(field, value.text);
    // `nearest` has two parts. The part before the ';' states what is allowed, so it goes before the given value. The
    // nearest value goes after it.
    const size_t end = std::min(nearest.find(';'), nearest.size());
    const absl::Status error =
        Error(value, path, absl::StrCat("expected ", AllowedIntegers(field), nearest.substr(0, end)));
    return absl::InvalidArgumentError(absl::StrCat(error.message(), nearest.substr(end)));
  }

  static const FieldDescriptor* FieldByJsonName(const Descriptor& type, const std::string& name) {
    for (int i = 0; i < type.field_count(); ++i) {
      if (type.field(i)->json_name() == name) return type.field(i);
    }
    return nullptr;
  }

  template <typename T>
  static std::optional<T> Integer(const JsonValue& value) {
    T result = 0;
    if (value.kind == JsonValue::Kind::kString) {
      // An integer in a string must be written as a JSON number: without blanks, a plus or a leading 0.
      const bool plain = value.text.find_first_not_of("-0123456789") == std::string::npos;
      const bool right = plain && !HasLeadingZero(value.text) && absl::SimpleAtoi(value.text, &result);
      return right ? std::optional<T>(result) : std::nullopt;
    }
    if constexpr (std::is_signed_v<T>) {
      const std::optional<int64_t> wide = value.Int64();
      if (!wide || *wide < std::numeric_limits<T>::min() || *wide > std::numeric_limits<T>::max()) return std::nullopt;
      return static_cast<T>(*wide);
    } else {
      const std::optional<uint64_t> wide = value.Uint64();
      if (!wide || *wide > std::numeric_limits<T>::max()) return std::nullopt;
      return static_cast<T>(*wide);
    }
  }

  absl::Status FillOne(const JsonValue& value, const std::string& path, const FieldDescriptor& field,
                       const Reflection& reflection, Message* message) {
    const bool repeated = field.is_repeated();
    const auto store = [&](auto set, auto add, auto item) {
      repeated ? (reflection.*add)(message, &field, item) : (reflection.*set)(message, &field, item);
      return absl::OkStatus();
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(value, path,
                    repeated ? reflection.AddMessage(message, &field) : reflection.MutableMessage(message, &field));
      case FieldDescriptor::CPPTYPE_BOOL:
        if (value.kind != JsonValue::Kind::kBool) return Error(value, path, "expected true or false");
        return store(&Reflection::SetBool, &Reflection::AddBool, value.boolean);
      case FieldDescriptor::CPPTYPE_STRING: {
        if (field.type() == FieldDescriptor::TYPE_BYTES || value.kind != JsonValue::Kind::kString) {
          return Error(value, path, "expected a string");
        }
        if (const absl::string_view problem = StringProblem(value.text); !problem.empty()) {
          return ErrorText(value, path, problem);
        }
        return store(&Reflection::SetString, &Reflection::AddString, value.text);
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const EnumValueDescriptor* found = nullptr;
        if (value.kind == JsonValue::Kind::kString) {
          found = FindEnumValue(*field.enum_type(), value.text);
        } else if (const std::optional<int32_t> number = Integer<int32_t>(value)) {
          found = field.enum_type()->FindValueByNumber(*number);
        }
        if (found == nullptr) {
          return ErrorText(value, path,
                           absl::StrCat("unknown ", field.enum_type()->name(), " ", Quoted(value.text),
                                        EnumHelp(field, value.text)));
        }
        return store(&Reflection::SetEnumValue, &Reflection::AddEnumValue, found->number());
      }
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const std::optional<double> real = value.Double();
        if (!real && value.kind == JsonValue::Kind::kNumber) {
          return ErrorText(value, path, absl::StrCat(Quoted(value.text), " is out of range; allowed: ", kDecimalRange));
        }
        if (!real) return Error(value, path, "expected a finite number");
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
          return store(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(*real));
        }
        return store(&Reflection::SetDouble, &Reflection::AddDouble, *real);
      }
      case FieldDescriptor::CPPTYPE_INT32:
        if (const auto integer = Integer<int32_t>(value)) {
          return store(&Reflection::SetInt32, &Reflection::AddInt32, *integer);
        }
        return IntegerError(value, path, field);
      case FieldDescriptor::CPPTYPE_INT64:
        if (const auto integer = Integer<int64_t>(value)) {
          return store(&Reflection::SetInt64, &Reflection::AddInt64, *integer);
        }
        return IntegerError(value, path, field);
      case FieldDescriptor::CPPTYPE_UINT32:
        if (const auto integer = Integer<uint32_t>(value)) {
          return store(&Reflection::SetUInt32, &Reflection::AddUInt32, *integer);
        }
        return IntegerError(value, path, field);
      case FieldDescriptor::CPPTYPE_UINT64:
        if (const auto integer = Integer<uint64_t>(value)) {
          return store(&Reflection::SetUInt64, &Reflection::AddUInt64, *integer);
        }
        return IntegerError(value, path, field);
    }
    return ErrorText(value, path, "the field has a type that JSON cannot express");
  }

  absl::string_view source_;
};

}  // namespace

absl::Status ReadJson(absl::string_view text, absl::string_view source, Message* message) {
  message->Clear();
  WEFT_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(text, source));
  return MessageFiller(source).Fill(value, RootName(*message->GetDescriptor()), message);
}

}  // namespace weft
