// Reads and writes numbers in messages between the processes of a job: little-endian, of fixed width.
#ifndef WEFT_EXECUTOR_PLATFORM_WIRE_H_
#define WEFT_EXECUTOR_PLATFORM_WIRE_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace weft::exec {

template <typename T>
void AppendNumber(std::string* out, T number) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(number);
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(bits >> (8 * i)));
}

// Reads a number from the front of `data` and removes it there. Returns false, and removes nothing, if `data` is too
// short.
template <typename T>
bool ReadNumber(absl::string_view* data, T* number) {
  if (data->size() < sizeof(T)) return false;
  std::make_unsigned_t<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bits = static_cast<std::make_unsigned_t<T>>(
        bits | static_cast<std::make_unsigned_t<T>>(static_cast<uint8_t>((*data)[i])) << (8 * i));
  }
  *number = static_cast<T>(bits);
  data->remove_prefix(sizeof(T));
  return true;
}

inline bool ReadBytes(absl::string_view* data, size_t count, absl::string_view* bytes) {
  if (data->size() < count) return false;
  *bytes = data->substr(0, count);
  data->remove_prefix(count);
  return true;
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_WIRE_H_
