#include "proto/io/text_reader.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "proto/io/content.h"
#include "proto/io/text_end.h"
#include "proto/io/text_fields.h"
#include "proto/io/written_zero.h"
#include "proto/util/status.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::ArrayInputStream;

// Keeps only the first error, because later errors follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }

  // The position of the error. Protobuf counts from 0; -1 = no position.
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

// True for the messages whose zeros CheckZeros checks. The reader records the places of all fields only for these
// messages. Programs and traces have too many fields for that, because their size grows with the number of actions.
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

// The result of protobuf's own parser.
struct Attempt {
  FirstError errors;
  // The places of the fields, for specs only.
  TextFormat::ParseInfoTree places;
  bool accepted = false;
};

void Parse(absl::string_view text, Message* message, Attempt* attempt) {
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&attempt->errors);
  parser.SetRecursionLimit(kMaxMessageDepth);
  if (IsSpec(*message->GetDescriptor())) parser.WriteLocationsTo(&attempt->places);
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  attempt->accepted = parser.Parse(&stream, message);
}

}  // namespace

absl::Status ReadText(absl::string_view text, absl::string_view source, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the text has ", text.size(), " bytes; weft reads at most 2^31-1"));
  }
  std::optional<Attempt> attempt(std::in_place);
  Parse(text, message, &*attempt);
  std::string respelt;
  if (!attempt->accepted) {
    respelt = EnumsAsTheContractHasThem(text, type);
    if (respelt != text) {
      text = respelt;
      Parse(text, message, &attempt.emplace());
    }
  }
  const bool accepted = attempt->accepted;
  const FirstError& errors = attempt->errors;
  const std::optional<TextProblem> problem = FirstTextProblem(text, type, accepted);
  // The parser reads past a wrong value before it reports it, so an earlier position may be the place of the error.
  const auto before_parser = [&] {
    return errors.line() < 0 ||
           std::make_pair(problem->line, problem->column) <= std::make_pair(errors.line(), errors.column());
  };
  if (problem.has_value() && (accepted || before_parser())) {
    return ErrorAt(source, problem->line, problem->column, problem->message);
  }
  if (!accepted) {
    std::string message = ProblemAtEnd(text, errors.line(), errors.column());
    if (message.empty()) message = errors.message().empty() ? "not a text proto" : errors.message();
    return ErrorAt(source, errors.line(), errors.column(), message);
  }
  if (IsSpec(type)) WEFT_RETURN_IF_ERROR(CheckZeros(*message, attempt->places, source, RootName(type)));
  if (const absl::Status status = CheckContent(*message, RootName(type)); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace weft
