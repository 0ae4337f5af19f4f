#include "proto/io/json_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/io/decimal.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/utf8.h"

namespace weft {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxBytes = size_t{64} << 20;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class JsonParser {
 public:
  JsonParser(absl::string_view text, absl::string_view source) : text_(text), source_(source) {}

  absl::StatusOr<JsonValue> Parse() {
    if (text_.size() > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(source_, ": the JSON has ", text_.size(), " bytes; weft reads at most ", kMaxBytes));
    }
    if (const size_t bad = FirstInvalidUtf8(text_); bad != text_.size()) {
      while (position_ < bad) Advance();
      return Error("invalid UTF-8");
    }
    if (absl::string_view(text_).substr(0, 3) == "\xef\xbb\xbf") position_ = 3;  // byte order mark
    JsonValue value;
    WEFT_RETURN_IF_ERROR(ParseValue(&value, 0));
    SkipSpace();
    if (position_ < text_.size()) return Error(absl::StrCat("unexpected ", Here(), " after the end of the value"));
    return value;
  }

 private:
  absl::Status Error(absl::string_view message) const { return ErrorAt(line_, column_, message); }

  absl::Status ErrorAt(int line, int column, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ":", line, ":", column, ": ", message));
  }

  std::string Here() const {
    return position_ < text_.size() ? Quoted(text_.substr(position_, 1)) : std::string("end of file");
  }

  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void Advance() {
    if (text_[position_] == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    ++position_;
  }

  bool Take(char c) {
    if (position_ >= text_.size() || text_[position_] != c) return false;
    Advance();
    return true;
  }

  void SkipSpace() {
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r') Advance();
  }

  absl::Status ParseValue(JsonValue* value, int depth) {
    if (depth > kMaxDepth) return Error(absl::StrCat("more than ", kMaxDepth, " levels of nesting"));
    SkipSpace();
    value->line = line_;
    value->column = column_;
    switch (Peek()) {
      case '{':
        return ParseObject(value, depth);
      case '[':
        return ParseArray(value, depth);
      case '"':
        value->kind = JsonValue::Kind::kString;
        return ParseString(&value->text);
      case 't':
        value->kind = JsonValue::Kind::kBool;
        value->boolean = true;
        return ParseWord("true");
      case 'f':
        value->kind = JsonValue::Kind::kBool;
        return ParseWord("false");
      case 'n':
        return ParseWord("null");
      default:
        if (Peek() == '-' || IsDigit(Peek())) return ParseNumber(value);
        return Error(absl::StrCat("expected a value, got ", Here()));
    }
  }

  absl::Status ParseWord(absl::string_view word) {
    if (text_.substr(position_, word.size()) != word) return Error("expected a value: true, false or null");
    for (size_t i = 0; i < word.size(); ++i) Advance();
    return absl::OkStatus();
  }

  absl::Status ParseObject(JsonValue* value, int depth) {
    value->kind = JsonValue::Kind::kObject;
    Advance();
    SkipSpace();
    if (Take('}')) return absl::OkStatus();
    std::vector<std::pair<int, int>> places;
    do {
      SkipSpace();
      if (Peek() != '"') return Error(absl::StrCat("expected a member name in double quotes, got ", Here()));
      places.push_back({line_, column_});
      value->names.emplace_back();
      WEFT_RETURN_IF_ERROR(ParseString(&value->names.back()));
      SkipSpace();
      if (!Take(':')) return Error(absl::StrCat("expected ':' after a member name, got ", Here()));
      value->elements.emplace_back();
      WEFT_RETURN_IF_ERROR(ParseValue(&value->elements.back(), depth + 1));
      SkipSpace();
    } while (Take(','));
    if (!Take('}')) return Error(absl::StrCat("expected ',' or '}', got ", Here()));

    std::vector<int> order(value->names.size());
    std::iota(order.begin(), order.end(), 0);
    // Sort by name, then by place: of two equal names the later one is the duplicate.
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const int by_name = value->names[a].compare(value->names[b]);
      return by_name != 0 ? by_name < 0 : a < b;
    });
    for (size_t i = 1; i < order.size(); ++i) {
      if (value->names[order[i]] != value->names[order[i - 1]]) continue;
      const auto [line, column] = places[order[i]];
      return ErrorAt(line, column, absl::StrCat("member ", Quoted(value->names[order[i]]), " is given twice"));
    }
    return absl::OkStatus();
  }

  absl::Status ParseArray(JsonValue* value, int depth) {
    value->kind = JsonValue::Kind::kArray;
    Advance();
    SkipSpace();
    if (Take(']')) return absl::OkStatus();
    do {
      value->elements.emplace_back();
      WEFT_RETURN_IF_ERROR(ParseValue(&value->elements.back(), depth + 1));
      SkipSpace();
    } while (Take(','));
    if (!Take(']')) return Error(absl::StrCat("expected ',' or ']', got ", Here()));
    return absl::OkStatus();
  }

  absl::Status ParseNumber(JsonValue* value) {
    value->kind = JsonValue::Kind::kNumber;
    const size_t start = position_;
    const auto digits = [&] {
      const size_t first = position_;
      while (IsDigit(Peek())) Advance();
      return position_ > first;
    };
    Take('-');
    if (Take('0')) {
      if (IsDigit(Peek())) return Error("a number must not have a leading 0");
    } else if (!digits()) {
      return Error(absl::StrCat("expected a digit, got ", Here()));
    }
    if (Take('.') && !digits()) return Error(absl::StrCat("expected a digit after '.', got ", Here()));
    if (Take('e') || Take('E')) {
      if (!Take('+')) Take('-');
      if (!digits()) return Error(absl::StrCat("expected a digit in the exponent, got ", Here()));
    }
    value->text = std::string(text_.substr(start, position_ - start));
    return absl::OkStatus();
  }

  absl::Status ParseString(std::string* out) {
    const int line = line_, column = column_;
    Advance();
    while (true) {
      if (position_ >= text_.size()) return ErrorAt(line, column, "this string has no closing quote");
      const char c = text_[position_];
      if (static_cast<unsigned char>(c) < 0x20) return Error("control character in a string; write it as \\u00NN");
      if (c == '"') break;
      if (c != '\\') {
        *out += c;
        Advance();
        continue;
      }
      WEFT_RETURN_IF_ERROR(ParseEscape(out));
    }
    Advance();
    return absl::OkStatus();
  }

  absl::Status ParseEscape(std::string* out) {
    Advance();
    const char c = Peek();
    if (c == 'u') {
      Advance();
      uint32_t code = 0;
      WEFT_RETURN_IF_ERROR(ParseHex4(&code));
      if (code >= 0xd800 && code <= 0xdbff) {
        uint32_t low = 0;
        if (!Take('\\') || !Take('u')) return Error("a high surrogate must be followed by a low one");
        WEFT_RETURN_IF_ERROR(ParseHex4(&low));
        if (low < 0xdc00 || low > 0xdfff) return Error("a high surrogate must be followed by a low one");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      } else if (code >= 0xdc00 && code <= 0xdfff) {
        return Error("a low surrogate without a high one");
      }
      AppendUtf8(code, out);
      return absl::OkStatus();
    }
    constexpr absl::string_view kNames = "\"\\/bfnrt";
    constexpr absl::string_view kValues = "\"\\/\b\f\n\r\t";
    const size_t i = position_ < text_.size() ? kNames.find(c) : absl::string_view::npos;
    if (i == absl::string_view::npos) return Error(absl::StrCat("unknown escape: backslash and ", Here()));
    *out += kValues[i];
    Advance();
    return absl::OkStatus();
  }

  absl::Status ParseHex4(uint32_t* code) {
    for (int i = 0; i < 4; ++i) {
      const char c = Peek();
      uint32_t digit = 0;
      if (IsDigit(c)) {
        digit = c - '0';
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        digit = (c | 0x20) - 'a' + 10;
      } else {
        return Error(absl::StrCat("expected four hexadecimal digits after \\u, got ", Here()));
      }
      *code = *code * 16 + digit;
      Advance();
    }
    return absl::OkStatus();
  }

  absl::string_view text_;
  absl::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  int column_ = 1;
};

// Accepts "3.0" and "3e2" as whole numbers too, if a double holds them exactly.
template <typename T>
std::optional<T> WholeNumber(const JsonValue& value) {
  if (value.kind != JsonValue::Kind::kNumber) return std::nullopt;
  const char* end = value.text.data() + value.text.size();
  T whole = 0;
  if (const auto [rest, error] = std::from_chars(value.text.data(), end, whole); rest == end) {
    return error == std::errc() ? std::optional<T>(whole) : std::nullopt;
  }
  constexpr double kExact = 9007199254740992;  // 2^53
  const std::optional<double> real = value.Double();
  if (!real || std::fabs(*real) > kExact || std::trunc(*real) != *real) return std::nullopt;
  if (*real < 0 && std::is_unsigned_v<T>) return std::nullopt;
  return static_cast<T>(*real);
}

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return &elements[i];
  }
  return nullptr;
}

std::optional<int64_t> JsonValue::Int64() const { return WholeNumber<int64_t>(*this); }

std::optional<uint64_t> JsonValue::Uint64() const { return WholeNumber<uint64_t>(*this); }

std::optional<double> JsonValue::Double() const {
  if (kind != Kind::kNumber) return std::nullopt;
  double value = 0;
  return ReadDecimal(text, &value) == Decimal::kRight ? std::optional<double>(value) : std::nullopt;
}

absl::string_view JsonKindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "a bool";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "an array";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "?";
}

absl::StatusOr<JsonValue> ParseJson(absl::string_view text, absl::string_view source) {
  return JsonParser(text, source).Parse();
}

}  // namespace weft
