#include "cli/common/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/util/printable.h"

namespace weft {

void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free descriptor, which is `fd`. It is opened for the wrong direction on purpose, so
    // that any use of it fails.
    [[maybe_unused]] const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

absl::Status Print(absl::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return absl::UnknownError(absl::StrCat("cannot write to standard output: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void PrintNote(absl::string_view text) { std::fprintf(stderr, "note: %s\n", MessageLine(text).c_str()); }

bool ColorOutput() { return isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr; }

int OutputWidth() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 120;
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() { Done(); }

void Progress::Done() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::Step(absl::string_view text) {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K%s...", Printable(text).c_str());
  std::fflush(stderr);
  shown_ = true;
  shown_at_ = std::chrono::steady_clock::now();
}

void Progress::StepOften(absl::string_view text) {
  constexpr std::chrono::milliseconds kPause{100};
  if (terminal_ && (!shown_ || std::chrono::steady_clock::now() - shown_at_ >= kPause)) Step(text);
}

}  // namespace weft
