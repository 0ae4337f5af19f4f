// What the command line needs to know about, and write to, the terminal.
#ifndef WEFT_CLI_COMMON_TERMINAL_H_
#define WEFT_CLI_COMMON_TERMINAL_H_

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// To be called first in main. Where one of the three standard streams is closed, what is opened next would get its
// number, and be written to by whoever prints: a socket, or the file of a checkpoint. Such a number is taken by
// something that fails as a closed stream does.
void HoldStandardStreams();

// Writes to standard output at once; an error (a full disk, a closed pipe) is a status.
absl::Status Print(absl::string_view text);

// "note: TEXT" on stderr, printable.
void PrintNote(absl::string_view text);

// Whether standard output shows colours: a terminal, and NO_COLOR is not set.
bool ColourOutput();
// Columns of the terminal on standard output; 120 if it is not one.
int OutputWidth();

// One line on stderr that says what long work is at, wiped when the next step begins and at the end. Silent unless
// stderr is a terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Step(absl::string_view text);
  // Of steps that may follow each other faster than a terminal can show: some are left out.
  void StepOften(absl::string_view text);
  // Wipes the line before anything else is printed.
  void Done();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point shown_at_;
};

}  // namespace weft

#endif  // WEFT_CLI_COMMON_TERMINAL_H_
