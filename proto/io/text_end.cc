#include "proto/io/text_end.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace weft {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

class AnyError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override { heard_ = true; }

  bool heard() const { return heard_; }

 private:
  bool heard_ = false;
};

// The bracket that closes `token`; 0 if `token` is not an opening bracket.
char ClosingOf(absl::string_view token) {
  constexpr std::pair<char, char> kPairs[] = {{'{', '}'}, {'[', ']'}, {'<', '>'}};
  for (const auto& [open, close] : kPairs) {
    if (token.size() == 1 && token[0] == open) return close;
  }
  return 0;
}

}  // namespace

std::string ProblemAtEnd(absl::string_view text, int line, int column) {
  AnyError error;
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  Tokenizer tokens(&stream, &error);
  // These settings must equal the settings of protobuf's text parser.
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokens.set_allow_f_after_float(true);
  tokens.set_require_space_after_number(false);
  tokens.set_allow_multiline_strings(true);
  std::vector<Tokenizer::Token> open;
  std::string last;
  while (tokens.Next()) {
    const Tokenizer::Token& token = tokens.current();
    last = token.text;
    if (token.type != Tokenizer::TYPE_SYMBOL) continue;
    if (ClosingOf(token.text) != 0) {
      open.push_back(token);
    } else if (!open.empty() && token.text[0] == ClosingOf(open.back().text)) {
      open.pop_back();
    }
  }
  // Another problem, such as a string without an end, is reported by the parser's own tokenizer.
  if (error.heard()) return "";
  if (tokens.current().line != line || tokens.current().column != column) return "";
  if (open.empty()) return absl::StrCat("the file ends after '", last, "', but a value must follow");
  const Tokenizer::Token& bracket = open.back();
  return absl::StrCat("the file ends, but the '", bracket.text, "' at ", bracket.line + 1, ":", bracket.column + 1,
                      " has no '", std::string(1, ClosingOf(bracket.text)), "'");
}

}  // namespace weft
