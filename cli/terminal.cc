#include "cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/utf8.h"

namespace weft {

void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Reading from what is open for writing fails, and the other way round.
    [[maybe_unused]] const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

absl::Status Print(absl::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return absl::UnknownError(absl::StrCat("cannot write to standard output: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t valid = FirstInvalidUtf8(text);
    for (size_t i = 0; i < text.size() && i <= valid; ++i) {
      const unsigned char byte = static_cast<unsigned char>(text[i]);
      if (i == valid || byte < 0x20 || byte == 0x7f) {
        absl::StrAppendFormat(&out, "\\x%02x", byte);
      } else {
        out += text[i];
      }
    }
    text.remove_prefix(std::min(valid + 1, text.size()));
  }
  return out;
}

bool ColourOutput() { return isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr; }

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
  std::fprintf(stderr, "\r\033[K%.*s...", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace weft
