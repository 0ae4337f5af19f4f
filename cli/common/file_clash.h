// Finds files that a command line names more than once, to be read or to be written.
#ifndef WEFT_CLI_COMMON_FILE_CLASH_H_
#define WEFT_CLI_COMMON_FILE_CLASH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace weft {

struct NamedFile {
  // The name in messages: "--trace", "the program".
  std::string flag;
  // Empty if the flag is not given.
  std::string path;
};

// Returns a UsageError if a file to be written is also read or is written twice, under whatever names: its content
// would be lost silently. Pipes and devices may be shared, because they hold nothing that could be lost. A written path
// "-" is an error too, because many tools take it for standard output; a command that can write there handles "-"
// before it calls this.
absl::Status CheckFileClashes(absl::Span<const NamedFile> read, absl::Span<const NamedFile> written);

}  // namespace weft

#endif  // WEFT_CLI_COMMON_FILE_CLASH_H_
