#include "proto/io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/descriptor.h"
#include "proto/io/content.h"
#include "proto/io/written_zero.h"
#include "proto/util/status.h"
#include "proto/util/utf8.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The place of a value in the message, as a chain of links from the value to the root. The chain becomes text only if
// there is an error.
struct Place {
  const Place* outer = nullptr;
  absl::string_view name;
  // The index in a list, or -1.
  int index = -1;

  std::string Path() const {
    return absl::StrCat(outer == nullptr ? "" : absl::StrCat(outer->Path(), "."), name,
                        index < 0 ? "" : absl::StrCat("[", index, "]"));
  }
};

void AppendNumber(double value, std::string& out) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out.append(buffer, end);
}

// True if JSON writes `c` unescaped.
bool IsPlain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '"' && c != '\\'; }

void AppendQuoted(absl::string_view text, std::string& out) {
  out += '"';
  if (std::all_of(text.begin(), text.end(), [](char c) { return IsPlain(c); })) {
    out.append(text.data(), text.size());
    out += '"';
    return;
  }
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (!IsPlain(c)) {
          absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

class JsonPrinter {
 public:
  absl::Status Print(const Message& message, const Place& place, int indent) {
    const std::vector<PrintedField>& fields = FieldsOf(*message.GetDescriptor());
    const Reflection& reflection = *message.GetReflection();
    out_ += '{';
    for (const PrintedField& printed : fields) {
      const FieldDescriptor& field = *printed.field;
      NewLine(&printed != fields.data(), indent + 1);
      out_ += printed.key;
      const Place own = {&place, field.name(), -1};
      if (!printed.repeated) {
        if ((printed.presence && !reflection.HasField(message, &field)) ||
            (printed.zero_rule && HoldsUnwritableZero(message, field))) {
          out_ += "null";
        } else {
          WEFT_RETURN_IF_ERROR(PrintValue(message, field, own, indent + 1));
        }
        continue;
      }
      out_ += '[';
      const int count = reflection.FieldSize(message, &field);
      for (int k = 0; k < count; ++k) {
        NewLine(k > 0, indent + 2);
        WEFT_RETURN_IF_ERROR(PrintValue(message, field, {&place, own.name, k}, indent + 2));
      }
      if (count > 0) NewLine(false, indent + 1);
      out_ += ']';
    }
    if (!fields.empty()) NewLine(false, indent);
    out_ += '}';
    return absl::OkStatus();
  }

  std::string Take() {
    out_ += '\n';
    return std::move(out_);
  }

 private:
  // Properties of a field. They are cached because a report prints the same fields for thousands of ranks.
  struct PrintedField {
    const FieldDescriptor* field = nullptr;
    // The field's name as it is printed, "\"name\": ".
    std::string key;
    bool repeated = false, presence = false, zero_rule = false;
  };

  // The fields of a type, in the order of their declaration.
  const std::vector<PrintedField>& FieldsOf(const Descriptor& type) {
    const auto [found, is_new] = fields_.try_emplace(&type);
    for (int i = 0; is_new && i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      found->second.push_back({&field, absl::StrCat("\"", field.name(), "\": "), field.is_repeated(),
                               field.has_presence(), HasZeroRule(field)});
    }
    return found->second;
  }

  void NewLine(bool comma, int indent) {
    // A line end with enough blanks for most lines. One append of a part of it is faster than three appends.
    constexpr absl::string_view kLine = ",\n                ";
    const size_t spaces = static_cast<size_t>(2 * indent);
    const size_t written = std::min(spaces, kLine.size() - 2);
    out_.append(kLine.data() + (comma ? 0 : 1), (comma ? 2 : 1) + written);
    if (written < spaces) out_.append(spaces - written, ' ');
  }

  // Prints element `place.index` of the field, or the field itself if the index is -1.
  absl::Status PrintValue(const Message& message, const FieldDescriptor& field, const Place& place, int indent) {
    const Reflection& reflection = *message.GetReflection();
    const int index = place.index;
    const auto get = [&](auto singular, auto repeated) {
      return index < 0 ? (reflection.*singular)(message, &field) : (reflection.*repeated)(message, &field, index);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Print(
            index < 0 ? reflection.GetMessage(message, &field) : reflection.GetRepeatedMessage(message, &field, index),
            place, indent);
      case FieldDescriptor::CPPTYPE_BOOL:
        out_ += get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_INT32:
        absl::StrAppend(&out_, get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_INT64:
        absl::StrAppend(&out_, get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_UINT32:
        absl::StrAppend(&out_, get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_UINT64:
        absl::StrAppend(&out_, get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_FLOAT:
        return PrintReal(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat), place);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return PrintReal(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble), place);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int number = get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue);
        const auto* value = field.enum_type()->FindValueByNumber(number);
        if (value == nullptr) {
          return absl::InvalidArgumentError(
              absl::StrCat(place.Path(), " = ", number, " is not a value of ", field.enum_type()->name()));
        }
        absl::StrAppend(&out_, "\"", value->name(), "\"");
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string scratch;
        const std::string& text = index < 0 ? reflection.GetStringReference(message, &field, &scratch)
                                            : reflection.GetRepeatedStringReference(message, &field, index, &scratch);
        if (!IsValidUtf8(text)) return absl::InvalidArgumentError(absl::StrCat(place.Path(), " is not valid UTF-8"));
        AppendQuoted(text, out_);
        return absl::OkStatus();
      }
    }
    return absl::InternalError(absl::StrCat(place.Path(), " has an unknown type"));
  }

  absl::Status PrintReal(double value, const Place& place) {
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(place.Path(), " = ", value, " cannot be written in JSON; it must be finite"));
    }
    AppendNumber(value, out_);
    return absl::OkStatus();
  }

  std::string out_;
  // A map, because references into it stay valid.
  std::map<const Descriptor*, std::vector<PrintedField>> fields_;
};

}  // namespace

absl::StatusOr<std::string> MessageToJson(const Message& message) {
  JsonPrinter printer;
  const std::string root = RootName(*message.GetDescriptor());
  WEFT_RETURN_IF_ERROR(printer.Print(message, {nullptr, root, -1}, 0));
  return printer.Take();
}

std::string JsonQuoted(absl::string_view text) {
  std::string out;
  AppendQuoted(text, out);
  return out;
}

std::string JsonNumber(double value) {
  std::string out;
  AppendNumber(value, out);
  return out;
}

}  // namespace weft
