// What the command line needs to know about, and write to, the terminal.
#ifndef WEFT_CLI_TERMINAL_H_
#define WEFT_CLI_TERMINAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// To be called first in main. Where one of the three standard streams is closed, what is opened next would get its
// number, and be written to by whoever prints: a socket, or the file of a checkpoint. Such a number is taken by
// something that fails as a closed stream does.
void HoldStandardStreams();

// Writes to standard output at once; an error (a full disk, a closed pipe) is a status.
absl::Status Print(absl::string_view text);

// `text` made safe to show on one line, such as the name of a file: control characters and bytes that are not UTF-8 as
// \xNN.
std::string Printable(absl::string_view text);

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
  // Wipes the line before anything else is printed.
  void Done();

 private:
  bool terminal_;
  bool shown_ = false;
};

}  // namespace weft

#endif  // WEFT_CLI_TERMINAL_H_
