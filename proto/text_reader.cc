#include "proto/text_reader.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "proto/content.h"
#include "proto/status.h"
#include "proto/suggest.h"
#include "proto/utf8.h"
#include "proto/written_zero.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

// Keeps the first error; later ones follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }

  // Protobuf counts from 0; -1 = nowhere.
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = -1;
  int column_ = -1;
  std::string message_;
};

absl::Status ErrorAt(absl::string_view source, int line, int column, absl::string_view message) {
  if (line < 0) return absl::InvalidArgumentError(absl::StrCat(source, ": ", message));
  return absl::InvalidArgumentError(absl::StrCat(source, ":", line + 1, ":", column + 1, ": ", message));
}

// All message types that `type` holds, itself first, each once.
std::vector<const Descriptor*> TypesIn(const Descriptor& type) {
  std::vector<const Descriptor*> types = {&type};
  std::set<const Descriptor*> known = {&type};
  for (size_t i = 0; i < types.size(); ++i) {
    for (int k = 0; k < types[i]->field_count(); ++k) {
      const Descriptor* next = types[i]->field(k)->message_type();
      if (next != nullptr && known.insert(next).second) types.push_back(next);
    }
  }
  return types;
}

// Protobuf's text with the nearest valid name appended. It quotes what it met: 'Message type "weft.Plan" has no field
// named "mehs".' and 'Unknown enumeration value of "fp31" for field "compute".'
std::string WithNearest(const std::string& message, const Descriptor& root) {
  const std::vector<std::string> parts = absl::StrSplit(message, '"');
  if (parts.size() < 5) return message;
  if (parts[0] == "Message type " && parts[2] == " has no field named ") {
    for (const Descriptor* type : TypesIn(root)) {
      if (type->full_name() != parts[1]) continue;
      return absl::StrCat("unknown field ", Quoted(parts[3]), " of ", type->name(),
                          NameHelp(parts[3], FieldNames(*type)));
    }
  }
  if (parts[0] == "Unknown enumeration value of " && parts[2] == " for field ") {
    const EnumDescriptor* found = nullptr;
    for (const Descriptor* type : TypesIn(root)) {
      const FieldDescriptor* field = type->FindFieldByName(parts[3]);
      if (field == nullptr || field->enum_type() == nullptr) continue;
      // The name alone does not say which of two enums was meant.
      if (found != nullptr && found != field->enum_type()) return message;
      found = field->enum_type();
    }
    if (found != nullptr) {
      return absl::StrCat("unknown value ", Quoted(parts[1]), " of field '", parts[3], "'",
                          NameHelp(parts[1], ValueNames(*found)));
    }
  }
  return message;
}

// Finds singular fields that are given twice. The parser itself does so only where the first value was not the default
// of the field, and would let the second win without a word. Runs on text that the parser has accepted.
class DuplicateFinder {
 public:
  DuplicateFinder(absl::string_view text, absl::string_view source)
      : source_(source), stream_(text.data(), static_cast<int>(text.size())), tokens_(&stream_, &ignored_) {
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_allow_f_after_float(true);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_multiline_strings(true);
    tokens_.Next();
  }

  absl::Status Find(const Descriptor& type) { return Fields(type, ""); }

 private:
  bool At(absl::string_view symbol) { return absl::string_view(tokens_.current().text) == symbol; }

  bool Done() { return tokens_.current().type == Tokenizer::TYPE_END; }

  // Fields up to `close`, which is taken; up to the end if it is empty.
  absl::Status Fields(const Descriptor& type, absl::string_view close) {
    std::set<const FieldDescriptor*> seen;
    while (!Done() && (close.empty() || !At(close))) {
      const Tokenizer::Token name = tokens_.current();
      const FieldDescriptor* field = type.FindFieldByName(name.text);
      if (field == nullptr) return absl::OkStatus();  // Not a name that the parser would have accepted.
      if (!field->is_repeated() && !seen.insert(field).second) {
        return ErrorAt(source_, name.line, name.column, absl::StrCat("field '", name.text, "' is given twice"));
      }
      tokens_.Next();
      if (At(":")) tokens_.Next();
      WEFT_RETURN_IF_ERROR(Value(*field));
      if (At(",") || At(";")) tokens_.Next();
    }
    tokens_.Next();
    return absl::OkStatus();
  }

  absl::Status Value(const FieldDescriptor& field) {
    if (At("[")) {
      tokens_.Next();
      while (!Done() && !At("]")) {
        WEFT_RETURN_IF_ERROR(Value(field));
        if (At(",")) tokens_.Next();
      }
      tokens_.Next();
    } else if (At("{") || At("<")) {
      const absl::string_view close = At("{") ? "}" : ">";
      tokens_.Next();
      if (field.message_type() != nullptr) return Fields(*field.message_type(), close);
    } else if (At("-")) {
      tokens_.Next();
      tokens_.Next();
    } else {
      const Tokenizer::TokenType type = tokens_.current().type;
      tokens_.Next();
      // Neighbouring strings are one value.
      while (type == Tokenizer::TYPE_STRING && tokens_.current().type == Tokenizer::TYPE_STRING) tokens_.Next();
    }
    return absl::OkStatus();
  }

  absl::string_view source_;
  FirstError ignored_;
  ArrayInputStream stream_;
  Tokenizer tokens_;
};

// Whether people write it: a program or a trace has as many fields as actions, and no tree of them is made for those.
bool IsSpec(const Descriptor& type) {
  const std::string& name = type.full_name();
  return name == "weft.Recipe" || name == "weft.Plan" || name == "weft.Cluster" || name == "weft.Runtime";
}

// Refuses zeros that somebody wrote and that would be taken for another value. `tree` has the place of every field.
absl::Status CheckZeros(const Message& message, const TextFormat::ParseInfoTree& tree, absl::string_view source,
                        const std::string& path) {
  const Descriptor& type = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string field_path = absl::StrCat(path, ".", field.name());
    if (field.message_type() == nullptr) {
      if (field.is_repeated()) continue;
      const TextFormat::ParseLocation at = tree.GetLocation(&field, -1);
      if (at.line < 0) continue;
      if (const absl::Status zero = CheckWritten(message, field, field_path); !zero.ok()) {
        return ErrorAt(source, at.line, at.column, std::string(zero.message()));
      }
      continue;
    }
    const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
    for (int k = 0; k < count; ++k) {
      const TextFormat::ParseInfoTree* nested = tree.GetTreeForNested(&field, field.is_repeated() ? k : -1);
      if (nested == nullptr) continue;
      WEFT_RETURN_IF_ERROR(field.is_repeated()
                               ? CheckZeros(reflection.GetRepeatedMessage(message, &field, k), *nested, source,
                                            absl::StrCat(field_path, "[", k, "]"))
                               : CheckZeros(reflection.GetMessage(message, &field), *nested, source, field_path));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadText(absl::string_view text, absl::string_view source, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", text.size(), " bytes; at most 2^31-1 are read"));
  }
  FirstError errors;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxMessageDepth);
  TextFormat::ParseInfoTree places;
  if (IsSpec(type)) parser.WriteLocationsTo(&places);
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, message)) {
    const std::string reason = errors.message().empty() ? "not a text proto" : WithNearest(errors.message(), type);
    return ErrorAt(source, errors.line(), errors.column(), reason);
  }
  WEFT_RETURN_IF_ERROR(DuplicateFinder(text, source).Find(type));
  if (IsSpec(type)) WEFT_RETURN_IF_ERROR(CheckZeros(*message, places, source, RootName(type)));
  if (const absl::Status status = CheckContent(*message, RootName(type)); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace weft
