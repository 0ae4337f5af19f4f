// The members of a JSON object of measurements, each taken once by name: what a field may hold, the other names that
// frameworks have for it, and the members that nobody took.
//
// Null stands for absent. Errors are InvalidArgument in one line: the field with its path, what was given, the line of
// the file, what is allowed.
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
  static constexpr int64_t kMostCount = int64_t{1} << 40;
  static constexpr double kMostNumber = 1e18;

  // `path` of the object in its run: "plan", empty for the run itself. `object` outlives this.
  Fields(const JsonValue& object, std::string path);

  // Each leaves `target` as it is if the field is absent. A field that has several of its names must have one value.
  absl::Status Text(const char* name, std::string* target, bool required = false);
  absl::Status Count(const char* name, std::optional<int64_t>* target, int64_t low = 1);
  absl::Status Number(const char* name, std::optional<double>* target, bool zero = false);
  absl::Status Truth(const char* name, std::optional<bool>* target);
  // Null if it is absent and not required.
  absl::StatusOr<const JsonValue*> Nested(const char* name, JsonValue::Kind kind, bool required);
  // Members that are known and not read.
  void Ignore(std::initializer_list<const char*> names);
  // Members that nobody took are added to `unread`, by path and each once. One that looks like a slip of a name that is
  // absent is an error, unless `slips` is false.
  absl::Status Rest(std::vector<std::string>* unread, bool slips = true);

  absl::Status Bad(absl::string_view name, const JsonValue& value, absl::string_view allowed) const;
  absl::Status Missing(absl::string_view name, absl::string_view allowed) const;

 private:
  std::string Path(absl::string_view name) const;
  // Null if no name of the field is there.
  absl::StatusOr<const JsonValue*> Take(const char* name);
  const JsonValue* Present(absl::string_view name) const;

  const JsonValue& object_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FIELDS_H_
