// weft inspect: shows what a program contains.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/program_text.h"
#include "proto/cluster.pb.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "schedules/collective/plan.h"
#include "simulator/simulate.h"
#include "verifier/verify.h"

namespace weft {
namespace {

// Draws the program's own order, with a forward of 1 us, a backward of 2 us and free transfers.
absl::StatusOr<std::string> UnitTimeline(const Program& program) {
  Cluster cluster;
  cluster.set_name("unit");
  cluster.set_nodes(1);
  cluster.set_devices_per_node(MeshRanks(program.mesh()));
  sim::SimulateOptions options;
  options.cost = "unit";
  options.network = "none";
  options.trace = true;
  WEFT_ASSIGN_OR_RETURN(const sim::Simulation simulation, sim::Simulate(program, cluster, options));
  return TraceTimeline(program, *simulation.trace, OutputWidth(), ColorOutput());
}

}  // namespace

absl::Status InspectCommand(absl::Span<const std::string> args) {
  int64_t rank = -1;
  bool timeline = false;
  Flags flags("weft inspect", "PROGRAM [flags]",
              "Shows what a program holds: mesh, templates, memory by class, segments; with --rank the actions of one\n"
              "rank in order. `weft convert PROGRAM --to=text` shows every field.");
  flags.Custom("rank", "R", "print the actions of rank R in order, instead of the summary", "",
               [&rank](const std::string& text) { return ReadCount(text, "expected a rank: 0, 1, ...", &rank); });
  flags.Bool("timeline",
             "print when each rank computes, if a forward takes 1 us, a backward 2 us and everything else no time",
             &timeline);
  flags.Example("weft inspect gpt2.weft --rank=0");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());

  WEFT_ASSIGN_OR_RETURN(const Program program, ReadProgram(flags.positional()[0]));
  // A program can be shown only if it is safe to follow. Whether it does all of the training work is checked last.
  const auto in_file = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(flags.positional()[0], ": ", status.message()));
  };
  if (absl::Status status =
          VerifyProgram(program, {.allow_unfit = true, .completeness = false, .algorithms = KnownCollectives()});
      !status.ok()) {
    return in_file(status);
  }
  const int64_t ranks = MeshRanks(program.mesh());
  if (rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank=", rank, ": the last rank of ", flags.positional()[0], " is ", ranks - 1));
  }
  std::string text;
  if (rank >= 0) {
    text = PrintableLines(RankListing(program, rank));
  } else if (!timeline) {
    text = PrintableLines(ProgramSummary(program));
  }
  if (timeline) {
    WEFT_ASSIGN_OR_RETURN(const std::string drawn, UnitTimeline(program));
    absl::StrAppend(&text, text.empty() ? "" : "\n", drawn);
  }
  WEFT_RETURN_IF_ERROR(Print(text));
  if (absl::Status status = VerifyProgram(program, {.allow_unfit = true}); !status.ok()) return in_file(status);
  return absl::OkStatus();
}

}  // namespace weft
