// weft: compiles, costs and runs parallel training plans. The libraries do the work; this file picks the subcommand.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/process/large_pages.h"
#include "proto/util/printable.h"
#include "proto/util/suggest.h"
#include "proto/version.h"

namespace weft {
namespace {

constexpr Command kCommands[] = {
    {"compile", "makes a program from a model, a recipe, a plan and a cluster", CompileCommand},
    {"simulate", "predicts what a program costs on a cluster: time, memory, idle time", SimulateCommand},
    {"fit", "says whether a plan fits in memory, what takes the memory, and what would change that", FitCommand},
    {"compare", "compares programs or plans on one cluster, and shows where their times differ", CompareCommand},
    {"plan", "searches for the fastest plan of a model on a cluster", PlanCommand},
    {"run", "trains with a program on this machine's devices", RunCommand},
    {"report", "compares a measured trace with a simulated one, action by action", ReportCommand},
    {"inspect", "shows what a program holds: templates, memory, segments, actions", InspectCommand},
    {"schedule", "shows a pipeline schedule without a model: timeline, bubble, memory", ScheduleCommand},
    {"calibrate", "measures this machine and writes a cluster file", CalibrateCommand},
    {"convert", "converts between text, JSON and binary, and Hugging Face configs to model graphs", ConvertCommand},
    {"list", "lists names of models, clusters, schedules, collectives, ...", ListCommand},
};

std::string Help() {
  std::string help =
      "usage: weft COMMAND [arguments]\n\n"
      "Compiles a model and a parallel plan into one program, predicts what it costs, and runs it.\n\ncommands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppendFormat(&help, "  %-10s %s\n", command.name, command.summary);
  }
  absl::StrAppend(&help, R"(
`weft COMMAND --help` has the flags and an example.

exit status:
  0        ok
  1        refused or failed: bad input, a wrong field or value of --set, or an output that weft cannot write (if that
           is standard output, the requested files are complete)
  2        wrong usage: weft cannot understand the command line, or it contradicts itself, whatever the files hold
  `weft run` also ends with (docs/faults.md):
  3        a deadline has passed
  4        another rank's process has died
  5        an error of a device or transport
  6        replicas differ
  128 + N  a rank died of signal N

example:
  weft compile --model=gpt2 --cluster=dgx-a100-80g --set pp=4 --set dp=2 --set gbs=64 --set seq=1024 -o gpt2.weft
)");
  return help;
}

// Prints an error to stderr and returns the exit status.
int Finish(absl::string_view command, const absl::Status& status) {
  if (status.ok()) return 0;
  // The message may contain a raw file name, so MessageLine makes it one line.
  std::fprintf(stderr, "%s: %s\n", std::string(command).c_str(), MessageLine(status.message()).c_str());
  return IsUsageError(status) ? 2 : 1;
}

int Main(const std::vector<std::string>& args) {
  if (args.empty()) {
    return Finish("weft", UsageError("a command is missing; see weft --help"));
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") return Finish("weft", Print(Help()));
  if (args[0] == "--version") return Finish("weft", Print(absl::StrCat("weft ", kVersion, "\n")));
  std::vector<std::string> known;
  for (const Command& command : kCommands) {
    if (command.name == args[0]) {
      return Finish(absl::StrCat("weft ", command.name), command.run(absl::MakeConstSpan(args).subspan(1)));
    }
    known.emplace_back(command.name);
  }
  const bool is_flag = args[0].size() > 1 && args[0][0] == '-';
  return Finish("weft", UsageError(absl::StrCat("unknown ", is_flag ? "flag " : "command ", Quoted(args[0]),
                                                is_flag ? "" : NameHelp(args[0], known), "; see weft --help")));
}

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }

}  // namespace weft

int main(int argc, char** argv) {
  weft::HoldStandardStreams();
  // A write beyond the file size limit (ulimit -f) then fails with an error and leaves nothing behind.
  std::signal(SIGXFSZ, SIG_IGN);
  weft::UseLargePages();
  return weft::Main(std::vector<std::string>(argv + (argc > 0), argv + argc));
}
