// Reads the members of a JSON object of measurements by name. Checks the values that a field may have, accepts the
// other names that frameworks use for it, and lists the members that no caller read.
//
// Null counts as absent. Errors are InvalidArgument in one line: the field with its path, the value given, the line of
// the file, and what is allowed.
#ifndef WEFT_TESTS_ACCURACY_FIELDS_H_
#define WEFT_TESTS_ACCURACY_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/io/json_value.h"

namespace weft {

class Fields {
 public:
  static constexpr int64_t kMaxCount = int64_t{1} << 40;
  static constexpr double kMaxNumber = 1e18;

  // `path` is the object's path in its run, e.g. "plan"; empty for the run itself. `object` must outlive this object.
  Fields(const JsonValue& object, std::string path);

  // Each function leaves `target` unchanged if the field is absent. If a field is given under several of its names, the
  // values must be equal.
  absl::Status Text(const char* name, std::string* target, bool required = false);
  absl::Status Count(const char* name, std::optional<int64_t>* target, int64_t low = 1);
  absl::Status Number(const char* name, std::optional<double>* target, bool zero = false);
  absl::Status Truth(const char* name, std::optional<bool>* target);
  // Returns null if the field is absent and not required.
  absl::StatusOr<const JsonValue*> Nested(const char* name, JsonValue::Kind kind, bool required);
  // Marks members as known although nothing reads them.
  void Ignore(std::initializer_list<const char*> names);
  // Appends the paths of members that no caller read to `unread`, each once. A member that looks like a misspelling of
  // an absent field is an error, unless `slips` is false.
  absl::Status Rest(std::vector<std::string>* unread, bool slips = true);

  absl::Status Bad(absl::string_view name, const JsonValue& value, absl::string_view allowed) const;
  absl::Status Missing(absl::string_view name, absl::string_view allowed) const;

 private:
  std::string Path(absl::string_view name) const;
  // Returns null if the field is absent under all of its names.
  absl::StatusOr<const JsonValue*> Take(const char* name);
  const JsonValue* Present(absl::string_view name) const;

  const JsonValue& object_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FIELDS_H_
