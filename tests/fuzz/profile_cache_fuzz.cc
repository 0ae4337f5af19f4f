// Fuzz target: the file of profiles that a search keeps.
#include <cstddef>
#include <cstdint>
#include <string>

#include "planner/search/profile_cache.h"
#include "tests/fuzz/require.h"

using weft::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view file(reinterpret_cast<const char*>(data), size);
  const weft::planner::StoredProfiles read = weft::planner::ReadProfiles(file);
  Require(read.bytes <= size);
  std::string again;
  for (const auto& [key, profile] : read.profiles) again += weft::planner::ProfileRecord(key, profile);
  const weft::planner::StoredProfiles reread = weft::planner::ReadProfiles(again);
  Require(reread.bytes == again.size() && reread.profiles.size() == read.profiles.size());
  return 0;
}
