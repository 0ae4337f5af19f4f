// JSON as a tree that keeps the position of each value. It serves readers that must name line and column and must keep
// all digits of integers: readers of specs, Hugging Face's config.json and safetensors headers.
#ifndef WEFT_PROTO_IO_JSON_VALUE_H_
#define WEFT_PROTO_IO_JSON_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  // For kString, the decoded text, which is valid UTF-8. For kNumber, the number as it was written.
  std::string text;
  // For kArray, the elements. For kObject, the values in file order; names[i] is the name of elements[i]. Names are
  // distinct.
  std::vector<JsonValue> elements;
  std::vector<std::string> names;
  // Position of the value's first character. Both numbers count from 1, and columns count bytes.
  int line = 0;
  int column = 0;

  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }

  // The member of an object with this name; null if there is none.
  const JsonValue* Find(absl::string_view name) const;
  // The number, if it is a whole number within the type ("3", "3.0", "3e2"); otherwise nothing.
  std::optional<int64_t> Int64() const;
  std::optional<uint64_t> Uint64() const;
  // The number, rounded to double; nothing if this is not a number, or one that no double holds (decimal.h).
  std::optional<double> Double() const;
};

// Returns "an object", "a number", ...
absl::string_view JsonKindName(JsonValue::Kind kind);

// Reads one JSON document (RFC 8259) and nothing after it. Refuses with "SOURCE:LINE:COLUMN: ...": any deviation from
// the grammar, a member named twice, invalid UTF-8, more than 100 levels, more than 64 MiB.
absl::StatusOr<JsonValue> ParseJson(absl::string_view text, absl::string_view source);

}  // namespace weft

#endif  // WEFT_PROTO_IO_JSON_VALUE_H_
