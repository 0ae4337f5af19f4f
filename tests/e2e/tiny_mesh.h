// Helpers for the tiny plans: they parse messages and write meshes as text.
#ifndef WEFT_TESTS_E2E_TINY_MESH_H_
#define WEFT_TESTS_E2E_TINY_MESH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/text_format.h"

namespace weft {

template <typename T>
absl::StatusOr<T> ParseTiny(const std::string& text) {
  T message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message)) {
    return absl::InternalError("the test's own text does not parse: " + text);
  }
  return message;
}

// Converts axis names with sizes ("data2 pipe4") to the axes of a Mesh as text proto.
inline std::string AxesOf(absl::string_view mesh) {
  std::string axes;
  for (const absl::string_view axis : absl::StrSplit(mesh, ' ')) {
    const size_t digits = axis.find_first_of("0123456789");
    absl::StrAppend(&axes, "axes { name: '", axis.substr(0, digits), "' size: ", axis.substr(digits), " } ");
  }
  return axes;
}

}  // namespace weft

#endif  // WEFT_TESTS_E2E_TINY_MESH_H_
