// weft run and weft calibrate: start weft-run, which links no LLVM and therefore also runs on machines where weft was
// never installed.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"

namespace weft {
namespace {

// Replaces this process by the weft-run beside its executable, because both were built together. Never uses a weft-run
// from PATH.
absl::Status Exec(const char* command, absl::Span<const std::string> args) {
  std::string self(PATH_MAX, '\0');
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0 || length == static_cast<ssize_t>(self.size())) {
    return absl::UnknownError(absl::StrCat("cannot find the folder of weft itself: ", std::strerror(errno)));
  }
  self.resize(length);
  const std::string program = absl::StrCat(self.substr(0, self.rfind('/') + 1), "weft-run");

  std::vector<std::string> words = {program, command};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  if (errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(
        program, " does not exist; weft-run must lie beside weft (build it with bazel build //cli:weft-run)"));
  }
  return absl::UnknownError(absl::StrCat("cannot start ", program, ": ", std::strerror(errno)));
}

}  // namespace

absl::Status RunCommand(absl::Span<const std::string> args) { return Exec("run", args); }

absl::Status CalibrateCommand(absl::Span<const std::string> args) { return Exec("calibrate", args); }

}  // namespace weft
