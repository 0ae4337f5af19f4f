#include "proto/io/content.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/utf8.h"

namespace weft {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {

bool IsWide(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 || field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

bool IsSigned(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
}

}  // namespace

std::string RootName(const Descriptor& type) {
  std::string out;
  for (char c : type.name()) {
    if (absl::ascii_isupper(c) && !out.empty()) out += '_';
    out += absl::ascii_tolower(c);
  }
  return out;
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    // "..._UNSPECIFIED" means that the field is not given.
    if (!absl::EndsWith(type.value(i)->name(), "_UNSPECIFIED")) names.push_back(type.value(i)->name());
  }
  return names;
}

std::vector<std::string> KnownValues(const FieldDescriptor& field) {
  // In these fields a plan may use fewer types than a buffer may have.
  if (field.full_name() == "weft.Precision.compute") return {"FP16", "BF16", "TF32", "FP32", "FP64"};
  if (field.containing_type()->full_name() == "weft.Precision") return {"FP16", "BF16", "FP32", "FP64"};
  return ValueNames(*field.enum_type());
}

const google::protobuf::EnumValueDescriptor* FindEnumValue(const EnumDescriptor& type, absl::string_view name) {
  const std::string meant = absl::StrReplaceAll(name, {{"-", "_"}});
  for (int i = 0; i < type.value_count(); ++i) {
    if (absl::EqualsIgnoreCase(type.value(i)->name(), meant)) return type.value(i);
  }
  return nullptr;
}

std::string OneofProblem(const FieldDescriptor& first) {
  return absl::StrCat("another member of '", first.real_containing_oneof()->name(), "' is given: '", first.name(), "'");
}

std::string EnumHelp(const FieldDescriptor& field, absl::string_view given) {
  const std::string lower = absl::AsciiStrToLower(given);
  const bool of_precision = field.containing_type()->full_name() == "weft.Precision";
  for (absl::string_view eight : {"fp8", "float8", "e4m3", "e5m2", "int8"}) {
    if (!of_precision || !absl::StrContains(lower, eight)) continue;
    return absl::StrCat("; known: ", absl::StrJoin(KnownValues(field), ", "),
                        "; weft trains in 16 bits or more; to predict a runtime that multiplies in 8 bits, use "
                        "--runtime=NAME-fp8 (`weft list runtimes`)");
  }
  return NameHelp(given, KnownValues(field));
}

std::string AllowedIntegers(const FieldDescriptor& field) {
  const std::string bits = IsWide(field) ? "64" : "32";
  return IsSigned(field) ? absl::StrCat("an integer of ", bits, " bits")
                         : absl::StrCat("an integer from 0 to 2^", bits, "-1");
}

std::string NearestInteger(const FieldDescriptor& field, absl::string_view given) {
  const bool negative = absl::ConsumePrefix(&given, "-");
  if (given.empty() || given.find_first_not_of("0123456789") != absl::string_view::npos) return "";
  uint64_t most = IsWide(field) ? std::numeric_limits<uint64_t>::max() : std::numeric_limits<uint32_t>::max();
  if (IsSigned(field)) most /= 2;
  if (HasLeadingZero(given)) {
    const absl::string_view digits = given.substr(std::min(given.find_first_not_of('0'), given.size() - 1));
    uint64_t value = 0;
    const bool nearest = absl::SimpleAtoi(digits, &value) && value <= most && (!negative || IsSigned(field));
    return nearest ? absl::StrCat(" without a 0 in front; nearest: ", negative ? "-" : "", digits)
                   : " without a 0 in front";
  }
  if (!negative) return absl::StrCat("; nearest: ", most);
  return IsSigned(field) ? absl::StrCat("; nearest: -", most + 1) : "; nearest: 0";
}

bool HasLeadingZero(absl::string_view given) {
  absl::ConsumePrefix(&given, "-");
  return given.size() > 1 && given[0] == '0' && absl::ascii_isdigit(given[1]);
}

absl::string_view StringProblem(absl::string_view text) {
  if (IsAsciiText(text)) return "";
  if (!IsValidUtf8(text)) return "invalid UTF-8";
  if (text.find('\0') != absl::string_view::npos) return "a NUL byte in a string";
  return "";
}

absl::Status CheckContent(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  if (const auto& unknown = reflection.GetUnknownFields(message); !unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": unknown field number ", unknown.field(0).number(),
                                                   "; a newer weft wrote the file, or the file is damaged"));
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const auto name = [&] {
        return absl::StrCat(path, ".", field->name(), field->is_repeated() ? absl::StrCat("[", i, "]") : "");
      };
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        WEFT_RETURN_IF_ERROR(CheckContent(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                               : reflection.GetMessage(message, field),
                                          name()));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && field->type() != FieldDescriptor::TYPE_BYTES) {
        std::string scratch;
        const std::string& text = field->is_repeated()
                                      ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                                      : reflection.GetStringReference(message, field, &scratch);
        if (const absl::string_view problem = StringProblem(text); !problem.empty()) {
          return absl::InvalidArgumentError(absl::StrCat(name(), ": ", problem));
        }
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        const int value = field->is_repeated() ? reflection.GetRepeatedEnumValue(message, field, i)
                                               : reflection.GetEnumValue(message, field);
        if (field->enum_type()->FindValueByNumber(value) == nullptr) {
          return absl::InvalidArgumentError(absl::StrCat(name(), " = ", value, " is not a value of ",
                                                         field->enum_type()->name(),
                                                         NameHelp("", KnownValues(*field))));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
