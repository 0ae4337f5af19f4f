// Fuzz target: the reader of safetensors headers. The first byte of the input is the number of data bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "executor/state/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int64_t data_bytes = data[0];
  std::map<std::string, std::string> metadata;
  const auto entries = weft::exec::ParseSafetensorsHeader(json, data_bytes, "fuzz", &metadata);
  if (!entries.ok()) return 0;
  // Entries come in order and cover the data without gap or overlap.
  int64_t next = 0;
  for (const weft::exec::SafetensorsEntry& entry : *entries) {
    if (entry.begin != next || entry.end < entry.begin) std::abort();
    next = entry.end;
  }
  if (next != data_bytes) std::abort();
  return 0;
}
