#include "executor/platform/memory_left.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace weft::exec {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The file names of one version of control groups, and where that version is mounted below /sys/fs/cgroup.
struct Version {
  const char *mount, *limit, *used, *unused_files;
};
constexpr Version kFirst = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kSecond = {"", "memory.max", "memory.current", "inactive_file"};
constexpr Version kSecondBesideFirst = {"/unified", "memory.max", "memory.current", "inactive_file"};

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::optional<int64_t> Count(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) return std::nullopt;
  return value;
}

// The number that a file holds. "max" (no limit) counts as no number.
std::optional<int64_t> NumberIn(const std::string& path) {
  const std::vector<std::string> lines = Lines(path);
  return lines.empty() ? std::nullopt : Count(lines[0]);
}

int64_t AvailableOf(const std::string& meminfo) {
  for (const std::string& line : Lines(meminfo)) {
    absl::string_view text = line;
    if (!absl::ConsumePrefix(&text, "MemAvailable:") || !absl::ConsumeSuffix(&text, " kB")) continue;
    if (const auto kib = Count(text); kib.has_value() && *kib <= kNoLimit / 1024) return *kib * 1024;
  }
  return kNoLimit;
}

int64_t LeftOfGroup(const std::string& folder, const Version& version) {
  const auto limit = NumberIn(absl::StrCat(folder, "/", version.limit));
  const auto used = NumberIn(absl::StrCat(folder, "/", version.used));
  if (!limit.has_value() || !used.has_value()) return kNoLimit;
  int64_t unused = 0;
  for (const std::string& line : Lines(absl::StrCat(folder, "/memory.stat"))) {
    absl::string_view text = line;
    if (absl::ConsumePrefix(&text, absl::StrCat(version.unused_files, " "))) unused = Count(text).value_or(0);
  }
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - unused));
}

// Returns the bytes that the limits of the group `path`, and of all groups that contain it, leave. Inside a container,
// `path` may be the group's path outside. Then only the mount itself, which is the container's own group, has the
// files.
int64_t LeftOfGroups(const std::string& mount, std::string path, const Version& version) {
  int64_t left = kNoLimit;
  for (;;) {
    left = std::min(left, LeftOfGroup(absl::StrCat(mount, path), version));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return left;
    path.resize(slash);
  }
}

}  // namespace

int64_t MemoryLeft(const std::string& root) {
  int64_t left = AvailableOf(absl::StrCat(root, "/proc/meminfo"));
  // Lines are number:controllers:path; version 2 has the number 0 and names no controllers.
  for (const std::string& line : Lines(absl::StrCat(root, "/proc/self/cgroup"))) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    const auto of = [&](const Version& version) {
      left = std::min(left, LeftOfGroups(absl::StrCat(root, "/sys/fs/cgroup", version.mount), parts[2], version));
    };
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) of(kFirst);
    if (parts[0] == "0" && parts[1].empty()) {
      of(kSecond);
      of(kSecondBesideFirst);
    }
  }
  return left;
}

}  // namespace weft::exec
