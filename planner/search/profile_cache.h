// Keeps block profiles in a file, so that the next search, for example after a stop or with other limits, does not
// measure them again.
//
// There is one file for each combination of model, cluster, cost model, network, runtime and build of weft; its name is
// a digest of all of them. A file is a list of records, each with its length and CRC32C. Processes may use it at the
// same time: each appends whole records. A record that is damaged ends the list; the next process to write cuts it off.
#ifndef WEFT_PLANNER_SEARCH_PROFILE_CACHE_H_
#define WEFT_PLANNER_SEARCH_PROFILE_CACHE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/search/block_profile.h"
#include "planner/search/search_context.h"

namespace weft::planner {

using CachedProfile = absl::StatusOr<BlockProfile>;

class ProfileCache {
 public:
  // If `folder` is empty, the cache keeps nothing. The cache creates the folder if it is missing. A cache that cannot
  // be read or written is like an empty one: it never makes a search fail.
  ProfileCache(const std::string& folder, const SearchContext& context);

  // Returns null if the profile is not known. The result is valid as long as the cache.
  const CachedProfile* Find(const std::string& key) const;
  // Appends a profile to the file. May be called by several threads.
  void Store(const std::string& key, const CachedProfile& profile) const;

 private:
  std::string path_;
  std::map<std::string, CachedProfile> known_;
};

// The records of a file, up to the first that is damaged, and the bytes that they take. Later records replace earlier
// ones with the same key.
struct StoredProfiles {
  std::map<std::string, CachedProfile> profiles;
  size_t bytes = 0;
};
StoredProfiles ReadProfiles(absl::string_view file);

// The record of one profile.
std::string ProfileRecord(const std::string& key, const CachedProfile& profile);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_PROFILE_CACHE_H_
