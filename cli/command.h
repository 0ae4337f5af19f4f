// The subcommands of `weft`, one file each.
#ifndef WEFT_CLI_COMMAND_H_
#define WEFT_CLI_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// `args` are what follows the subcommand's name. Exit status: 0 if ok, 2 for a UsageError (cli/common/flags.h), else 1;
// the message goes to stderr as one line.
using CommandFn = absl::Status(absl::Span<const std::string> args);

struct Command {
  absl::string_view name;
  absl::string_view summary;
  CommandFn* run;
};

// In the order of `weft --help`.
absl::Span<const Command> Commands();

CommandFn CompileCommand, SimulateCommand, CompareCommand, ScheduleCommand, RunCommand, InspectCommand, ConvertCommand,
    ReportCommand, ListCommand, CalibrateCommand;

}  // namespace weft

#endif  // WEFT_CLI_COMMAND_H_
