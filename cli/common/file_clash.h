// Files that a command line names more than once, to be read and to be written.
#ifndef WEFT_CLI_COMMON_FILE_CLASH_H_
#define WEFT_CLI_COMMON_FILE_CLASH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace weft {

struct NamedFile {
  // As in messages: "--trace", "the program".
  std::string flag;
  // Empty: not given.
  std::string path;
};

// UsageError if what is to be written is the same file as what is read, or as another that is written, by whatever
// names: it would be lost without a word. Pipes and devices hold nothing that could be. Neither is "-" a file, which
// stands for standard output to many: whoever can write there takes it as that before.
absl::Status CheckFileClashes(absl::Span<const NamedFile> read, absl::Span<const NamedFile> written);

}  // namespace weft

#endif  // WEFT_CLI_COMMON_FILE_CLASH_H_
