// The command line's view of the terminal: its standard streams, colors, width and progress line.
#ifndef WEFT_CLI_COMMON_TERMINAL_H_
#define WEFT_CLI_COMMON_TERMINAL_H_

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// Call this first in main. If one of the three standard streams is closed, the next file that is opened gets its
// number, and prints would go there: to a socket, or to the file of a checkpoint. This call fills each such number with
// a descriptor that fails as a closed stream does.
void HoldStandardStreams();

// Writes to standard output at once. Returns write errors (a full disk, a closed pipe).
absl::Status Print(absl::string_view text);

// Prints "note: TEXT" on stderr, with unprintable characters escaped.
void PrintNote(absl::string_view text);

// True if standard output shows colors: it is a terminal, and NO_COLOR is not set.
bool ColorOutput();
// Columns of the terminal on standard output; 120 if standard output is not a terminal.
int OutputWidth();

// One line on stderr that says what a long command is doing. The line is wiped when the next step begins and at the
// end. Silent unless stderr is a terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Step(absl::string_view text);
  // Like Step, for steps that may follow each other faster than a terminal can show them: skips some.
  void StepOften(absl::string_view text);
  // Wipes the line. Call it before anything else is printed.
  void Done();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point shown_at_;
};

}  // namespace weft

#endif  // WEFT_CLI_COMMON_TERMINAL_H_
