// The subcommands of `weft`, one file each.
#ifndef WEFT_CLI_COMMAND_H_
#define WEFT_CLI_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// `args` are the arguments after the subcommand's name. The exit status is 0 for OK, 2 for a UsageError
// (cli/common/flags.h), and 1 for other errors. The message goes to stderr as one line.
using CommandFn = absl::Status(absl::Span<const std::string> args);

struct Command {
  absl::string_view name;
  absl::string_view summary;
  CommandFn* run;
};

// All subcommands, in the order of `weft --help`.
absl::Span<const Command> Commands();

CommandFn CompileCommand, SimulateCommand, FitCommand, CompareCommand, PlanCommand, ScheduleCommand, RunCommand,
    InspectCommand, ConvertCommand, ReportCommand, ListCommand, CalibrateCommand;

}  // namespace weft

#endif  // WEFT_CLI_COMMAND_H_
