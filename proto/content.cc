#include "proto/content.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/status.h"
#include "proto/suggest.h"
#include "proto/utf8.h"

namespace weft {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

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
    // "..._UNSPECIFIED" stands for a field that is not given.
    if (!absl::EndsWith(type.value(i)->name(), "_UNSPECIFIED")) names.push_back(type.value(i)->name());
  }
  return names;
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
                                                   "; written by a newer version, or damaged"));
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
          return absl::InvalidArgumentError(absl::StrCat(name(), " = ", value, " is no ", field->enum_type()->name(),
                                                         NameHelp("", ValueNames(*field->enum_type()))));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
