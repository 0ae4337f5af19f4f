// weft compile: compiles a model, a recipe, a plan and a cluster into a proven program.
#include "planner/compile.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "proto/io/io.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/units_text.h"
#include "simulator/cost/cost_model.h"

namespace weft {
namespace {

std::string Written(const Program& program, const std::string& path) {
  int actions = 0;
  for (const Template& t : program.templates()) actions += t.prologue_size() + t.body_size() + t.epilogue_size();
  const auto counted = [](int64_t count, absl::string_view one, absl::string_view more) {
    return absl::StrCat(count, " ", count == 1 ? one : more);
  };
  return absl::StrCat(path, ": ", program.name(), " for ", counted(MeshRanks(program.mesh()), "rank", "ranks"), ", ",
                      counted(program.stages(), "stage", "stages"), ", ",
                      counted(program.microbatches(), "microbatch", "microbatches"), ", schedule ", program.schedule(),
                      "; ", counted(actions, "action", "actions"), ", ", BytesText(PlannedDeviceBytes(program)),
                      " per device", program.does_not_fit() ? ", WHICH DOES NOT FIT" : "");
}

}  // namespace

absl::Status CompileCommand(absl::Span<const std::string> args) {
  InputFlags input;
  std::string output, emit = "program", cost;
  bool allow_oom = false;
  Flags flags(
      "weft compile", "--model=M --cluster=C [--recipe=R] [--plan=P] -o PROGRAM [flags]",
      "Compiles a model and a plan into a program: an ordered list of actions for every rank. The lists are proven\n"
      "complete, matched (each receive has its send), free of deadlock, and inside device memory.");
  AddInputFlags(&flags, &input);
  flags.String(
      "output", "FILE",
      "the program file to write; with --emit=graph|rank, the file for the MLIR text, by default - (standard output)",
      &output);
  flags.Short('o', "output");
  flags.Choice("emit", {"graph", "rank", "program"},
               "what to write: graph = the model before planning, as MLIR text; rank = the planned lists of actions, "
               "as MLIR text; program = the program",
               &emit);
  flags.Choice("cost", sim::DeviceCostModels(),
               "the cost model that the compiler uses to cut stages, order slots and choose what to keep [tiles if the "
               "cluster has figures for it, else roofline]",
               &cost);
  flags.Bool("allow-oom", "write a program even if it does not fit; you can simulate it, but not run it", &allow_oom);
  flags.Example(
      "weft compile --model=gpt2 --cluster=dgx-a100-80g --set pp=4 --set dp=2 --set gbs=64 --set seq=1024 -o "
      "gpt2.weft");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 0));
  if (flags.help_wanted()) return Print(flags.Help());
  if (emit == "program" && output.empty()) return UsageError("-o FILE is needed; see weft compile --help");

  // Only IR may be written to standard output. A program is binary, and a line about it is printed there.
  if (emit != "program" && output == "-") output.clear();
  WEFT_RETURN_IF_ERROR(CheckFileClashes(InputFiles(input), {{"-o", output}}));
  Progress progress;
  WEFT_ASSIGN_OR_RETURN(const Inputs inputs, LoadInputs(input, &progress));
  progress.Step(absl::StrCat("compiling ", inputs.model.name()));
  // The same default as weft simulate.
  if (cost.empty()) cost = sim::BestCostModel(inputs.cluster);
  if (emit != "program") {
    const absl::StatusOr<std::string> emitted =
        planner::EmitIr(inputs.model, inputs.recipe, inputs.plan, inputs.cluster, emit, cost);
    WEFT_RETURN_IF_ERROR(WithFile(emitted.status(), input, inputs));
    for (const std::string& note : inputs.notes) PrintNote(note);
    const std::string& ir = *emitted;
    return output.empty() ? Print(ir) : WriteFileAtomic(output, ir);
  }
  std::vector<std::string> notes = inputs.notes;
  if (std::string note = NoteOnMesh(inputs); !note.empty()) notes.push_back(std::move(note));
  planner::CompileOptions options;
  options.cost = cost;
  options.allow_oom = allow_oom;
  options.notes = &notes;
  options.on_phase = [&](absl::string_view phase) {
    progress.Step(absl::StrCat("compiling ", inputs.model.name(), ": ", phase));
  };
  options.on_try = [&](absl::string_view change) {
    progress.Step(absl::StrCat("the plan does not fit; trying changes: ", change));
  };
  const absl::StatusOr<Program> compiled =
      planner::CompilePlan(inputs.model, inputs.recipe, inputs.plan, inputs.cluster, options);
  WEFT_RETURN_IF_ERROR(WithFile(compiled.status(), input, inputs));
  const Program& program = *compiled;
  progress.Step(absl::StrCat("writing ", output));
  WEFT_RETURN_IF_ERROR(WriteProgram(program, output));
  progress.Done();
  for (const std::string& note : notes) PrintNote(note);
  const absl::Status printed = Print(Printable(Written(program, output)) + "\n");
  // The program is written even if the line about it cannot be printed.
  return printed.ok() ? printed
                      : absl::Status(printed.code(), absl::StrCat(printed.message(), "; ", output, " is written"));
}

}  // namespace weft
