#include "cli/common/file_clash.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/common/flags.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool AreOne(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::exists(a, error) && fs::exists(b, error)) {
    return fs::is_regular_file(a, error) && fs::equivalent(a, b, error);
  }
  const fs::path first = fs::weakly_canonical(a, error), second = fs::weakly_canonical(b, error);
  return !error && first == second;
}

}  // namespace

absl::Status CheckFileClashes(absl::Span<const NamedFile> read, absl::Span<const NamedFile> written) {
  for (size_t i = 0; i < written.size(); ++i) {
    const NamedFile& output = written[i];
    if (output.path.empty()) continue;
    if (output.path == "-") {
      return UsageError(absl::StrCat(
          output.flag, " -: this output cannot go to standard output; give a file (./- for a file named -)"));
    }
    for (const NamedFile& input : read) {
      if (input.path.empty() || !AreOne(output.path, input.path)) continue;
      return UsageError(absl::StrCat(output.flag, " ", output.path, " would overwrite ", input.flag, " ", input.path,
                                     ", which is an input; give another name"));
    }
    for (size_t k = 0; k < i; ++k) {
      if (written[k].path.empty() || !AreOne(output.path, written[k].path)) continue;
      return UsageError(absl::StrCat(output.flag, " ", output.path, " and ", written[k].flag, " ", written[k].path,
                                     " are the same file; give two different names"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
