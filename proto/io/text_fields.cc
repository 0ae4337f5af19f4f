#include "proto/io/text_fields.h"

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/io/content.h"
#include "proto/io/decimal.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

// Ignores errors of the tokenizer, because the parser's own tokenizer reports them.
class Unheard : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

class TextWalk {
 public:
  TextWalk(absl::string_view text, bool accepted)
      : accepted_(accepted), stream_(text.data(), static_cast<int>(text.size())), tokens_(&stream_, &unheard_) {
    // These settings must equal the settings of protobuf's text parser.
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_allow_f_after_float(true);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_multiline_strings(true);
    tokens_.Next();
  }

  std::optional<TextProblem> Walk(const Descriptor& type) {
    root_ = RootName(type);
    Fields(type, "");
    return std::move(problem_);
  }

  // An enum name that differs from the contract's spelling only in case: its place in the text, and the contract's
  // spelling.
  struct Respelt {
    int line;
    int column;
    std::string name;
  };
  const std::vector<Respelt>& respelt() const { return respelt_; }

 private:
  bool At(absl::string_view symbol) { return absl::string_view(tokens_.current().text) == symbol; }

  bool AtEnd() { return tokens_.current().type == Tokenizer::TYPE_END; }

  // The path of the current field, such as "plan.mesh.axes[1].name".
  std::string Path() const {
    std::string path = root_;
    for (const auto& [field, index] : path_) {
      absl::StrAppend(&path, ".", field->name(), index < 0 ? "" : absl::StrCat("[", index, "]"));
    }
    return path;
  }

  // The next two functions end the walk.
  bool Problem(const Tokenizer::Token& at, std::string message) {
    problem_ = TextProblem{at.line, at.column, std::move(message)};
    return false;
  }
  bool NoTextProto() { return false; }

  // The next functions return false if the walk must end. Fields reads up to and including `close`, or to the end if
  // `close` is empty.
  bool Fields(const Descriptor& type, absl::string_view close) {
    if (path_.size() > kMaxMessageDepth) return NoTextProto();
    std::map<const FieldDescriptor*, int> seen;
    std::map<const OneofDescriptor*, const FieldDescriptor*> of_oneof;
    while (!AtEnd() && (close.empty() || !At(close))) {
      const Tokenizer::Token name = tokens_.current();
      if (name.type != Tokenizer::TYPE_IDENTIFIER) return NoTextProto();
      const FieldDescriptor* field = type.FindFieldByName(name.text);
      if (field == nullptr) {
        if (accepted_) return NoTextProto();  // Not a name that the parser takes.
        return Problem(
            name, absl::StrCat("unknown field ", Quoted(name.text), " of ", type.name(),
                               path_.empty() ? "" : absl::StrCat(", ", Path()), NameHelp(name.text, FieldNames(type))));
      }
      int& count = seen[field];
      if (!field->is_repeated() && count > 0) {
        return Problem(name, absl::StrCat("field '", name.text, "' is given twice"));
      }
      if (const OneofDescriptor* oneof = field->real_containing_oneof(); oneof != nullptr) {
        const FieldDescriptor*& first = of_oneof[oneof];
        if (first != nullptr) {
          return Problem(name, absl::StrCat(Path(), ".", name.text, ": ", OneofProblem(*first)));
        }
        first = field;
      }
      path_.push_back({field, field->is_repeated() ? count : -1});
      tokens_.Next();
      if (At(":")) {
        tokens_.Next();
      } else if (!accepted_ && field->message_type() == nullptr) {
        return NoTextProto();
      }
      if (!Value(*field)) return false;
      count = field->is_repeated() ? path_.back().second + 1 : 1;
      path_.pop_back();
      if (At(",") || At(";")) tokens_.Next();
    }
    tokens_.Next();
    return true;
  }

  // Reads one value, or a list of values. Counts the elements of the list.
  bool Value(const FieldDescriptor& field) {
    if (!At("[") || !field.is_repeated()) return One(field);
    tokens_.Next();
    while (!AtEnd() && !At("]")) {
      if (!One(field)) return false;
      ++path_.back().second;
      if (At(",")) tokens_.Next();
    }
    // The path now has the index after the last element, so step back by one.
    --path_.back().second;
    tokens_.Next();
    return true;
  }

  bool One(const FieldDescriptor& field) {
    if (field.message_type() != nullptr) {
      if (At("{") || At("<")) {
        const absl::string_view close = At("{") ? "}" : ">";
        tokens_.Next();
        return Fields(*field.message_type(), close);
      }
      return Problem(tokens_.current(), absl::StrCat(Path(), " has fields of its own: ", field.name(), " { ... } with ",
                                                     absl::StrJoin(FieldNames(*field.message_type()), ", ")));
    }
    // If the text ends here, the parser reports the missing value.
    if (AtEnd()) return NoTextProto();
    const Tokenizer::Token first = tokens_.current();
    const bool negative = At("-");
    if (negative) tokens_.Next();
    const Tokenizer::Token token = tokens_.current();
    const std::string given = absl::StrCat(negative ? "-" : "", token.text);
    std::string expected;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        expected = NumberProblem(token);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        if (!HasLeadingZero(token.text) && (accepted_ || token.type == Tokenizer::TYPE_INTEGER)) break;
        if (const EnumValueDescriptor* found = negative ? nullptr : FindEnumValue(*field.enum_type(), token.text);
            found == nullptr) {
          return Problem(first, absl::StrCat(Path(), " = ", Quoted(given), " is unknown", EnumHelp(field, given)));
        } else if (found->name() != token.text) {
          respelt_.push_back({token.line, token.column, found->name()});
        }
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        if (HasLeadingZero(token.text) || (!accepted_ && (negative || !IsBool(token)))) expected = "true or false";
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        if (accepted_ || token.type == Tokenizer::TYPE_STRING) break;
        expected = "a text in double quotes";
        break;
      default:
        if (HasLeadingZero(token.text) || (!accepted_ && !IsInteger(field, token, negative))) {
          expected = absl::StrCat(AllowedIntegers(field), NearestInteger(field, given));
        }
    }
    if (!expected.empty()) return Problem(first, absl::StrCat(Path(), " = ", Quoted(given), " must be ", expected));
    tokens_.Next();
    // Adjacent strings form one value.
    while (token.type == Tokenizer::TYPE_STRING && tokens_.current().type == Tokenizer::TYPE_STRING) tokens_.Next();
    return true;
  }

  // Returns what `token` must be if it is not a double; empty if it is one.
  std::string NumberProblem(const Tokenizer::Token& token) const {
    if (token.type == Tokenizer::TYPE_FLOAT || token.type == Tokenizer::TYPE_INTEGER) {
      absl::string_view digits = token.text;
      if (token.type == Tokenizer::TYPE_FLOAT && !absl::ConsumeSuffix(&digits, "f")) absl::ConsumeSuffix(&digits, "F");
      double value = 0;
      switch (ReadDecimal(digits, &value)) {
        case Decimal::kRight:
          return "";
        case Decimal::kOutOfRange:
          return absl::StrCat("a number that a double can hold: ", kDecimalRange);
        case Decimal::kNoNumber:
          return accepted_ ? "" : "a decimal number";
      }
    }
    const std::string word = absl::AsciiStrToLower(token.text);
    // Validation decides where infinity and NaN are not allowed.
    return accepted_ || word == "inf" || word == "infinity" || word == "nan" ? "" : "a finite number";
  }

  static bool IsBool(const Tokenizer::Token& token) {
    uint64_t value = 0;
    if (token.type == Tokenizer::TYPE_INTEGER) return Tokenizer::ParseInteger(token.text, 1, &value);
    return token.text == "true" || token.text == "True" || token.text == "t" || token.text == "false" ||
           token.text == "False" || token.text == "f";
  }

  static bool IsInteger(const FieldDescriptor& field, const Tokenizer::Token& token, bool negative) {
    if (token.type != Tokenizer::TYPE_INTEGER) return false;
    const bool is_signed =
        field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    const bool wide =
        field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 || field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
    if (negative && !is_signed) return false;
    uint64_t most = wide ? std::numeric_limits<uint64_t>::max() : std::numeric_limits<uint32_t>::max();
    if (is_signed) most = most / 2 + (negative ? 1 : 0);
    uint64_t value = 0;
    return Tokenizer::ParseInteger(token.text, most, &value);
  }

  const bool accepted_;
  std::vector<Respelt> respelt_;
  std::string root_;
  // The fields that lead to the current token. The index is -1 for fields that are not repeated.
  std::vector<std::pair<const FieldDescriptor*, int>> path_;
  std::optional<TextProblem> problem_;
  Unheard unheard_;
  ArrayInputStream stream_;
  Tokenizer tokens_;
};

}  // namespace

std::string EnumsAsTheContractHasThem(absl::string_view text, const Descriptor& type) {
  TextWalk walk(text, /*accepted=*/false);
  walk.Walk(type);
  std::string respelt(text);
  size_t at = 0;
  int line = 0, column = 0;
  for (const TextWalk::Respelt& name : walk.respelt()) {
    for (; at < text.size() && (line < name.line || column < name.column); ++at) {
      if (text[at] == '\n') {
        ++line;
        column = 0;
      } else {
        // Advance to the next tab stop, as the tokenizer does.
        column += text[at] == '\t' ? 8 - column % 8 : 1;
      }
    }
    respelt.replace(at, name.name.size(), name.name);
  }
  return respelt;
}

std::optional<TextProblem> FirstTextProblem(absl::string_view text, const Descriptor& type, bool accepted) {
  return TextWalk(text, accepted).Walk(type);
}

}  // namespace weft
