// weft compare: programs or plans side by side on one cluster.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/cost_flags.h"
#include "cli/inputs/costed_program.h"
#include "cli/inputs/inputs.h"
#include "cli/results/fit.h"
#include "proto/io/json.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/utf8.h"
#include "simulator/compare/programs.h"

namespace weft {
namespace {

// More programs would not be readable as one table.
constexpr size_t kMaxPrograms = 64;

// A note, and the programs that it applies to.
struct NoteOfPrograms {
  std::string text;
  std::vector<std::string> files;
};

void AddNote(const std::string& text, const std::string& file, std::vector<NoteOfPrograms>* notes) {
  for (NoteOfPrograms& note : *notes) {
    if (note.text != text) continue;
    if (note.files.back() != file) note.files.push_back(file);
    return;
  }
  notes->push_back({text, {file}});
}

// Puts the file's name in front of an error, so that the user sees which of several files the error is about. Usage
// errors, and messages that begin with the file's name already, stay as they are.
absl::Status WithFile(const absl::Status& status, const std::string& file) {
  if (status.ok() || IsUsageError(status) || absl::StartsWith(status.message(), file)) return status;
  return Annotate(status, file);
}

absl::StatusOr<sim::SimulatedProgram> SimulateOne(const std::string& file, CostRequest request, Progress* progress,
                                                  std::string* cluster, std::vector<NoteOfPrograms>* notes,
                                                  absl::Status* fits) {
  (request.input.model.empty() ? request.program : request.input.plan) = file;
  absl::StatusOr<CostedProgram> loaded = LoadOrCompile(request, progress);
  if (!loaded.ok()) return WithFile(loaded.status(), file);
  sim::SimulateOptions& options = request.options;
  WEFT_RETURN_IF_ERROR(WithFile(FinishOptions(*loaded, &options), file));
  progress->Step(absl::StrCat("simulating ", file, " on ", loaded->cluster.name()));
  const absl::StatusOr<sim::Simulation> simulation = SimulateCosted(*loaded, options, progress);
  if (!simulation.ok()) return WithFile(simulation.status(), file);
  WEFT_RETURN_IF_ERROR(WithFile(sim::CheckRatios(loaded->program, simulation->report), file));
  for (const std::string& note : NotesOn(*loaded, options)) AddNote(note, file, notes);
  fits->Update(Annotate(CheckFit(*simulation, loaded->program, loaded->cluster), file));
  // The first program's cluster becomes the cluster of all following programs.
  if (cluster->empty()) *cluster = loaded->program.cluster_name();
  return sim::SimulatedProgram{IsValidUtf8(file) ? file : Printable(file), simulation->report};
}

}  // namespace

absl::Status CompareCommand(absl::Span<const std::string> args) {
  CostRequest request;
  std::string format = "text";
  bool require_fit = false;
  Flags flags(
      "weft compare", "PROGRAM PROGRAM... | PLAN PLAN... --model=M --cluster=C [--recipe=R]   [flags]",
      "Predicts two or more programs on one cluster and compares each with the first: which is fastest, how much\n"
      "memory each needs, and where the time goes. A program is a file that `weft compile` wrote. With --model the\n"
      "files are plans, which are compiled first.");
  flags.String("model", "NAME|FILE",
               "the files are plans for this model: from the catalog, a Hugging Face config.json "
               "or a model graph",
               &request.input.model);
  flags.String("recipe", "FILE", "with --model: how to train (batch, optimizer, ...); --set overrides single fields",
               &request.input.recipe);
  flags.String("cluster", "NAME|FILE",
               "the machine, from the catalog or a file; default: the cluster of the first program",
               &request.input.cluster);
  flags.Repeated("set", "FIELD=VALUE", "with --model: overrides a field in all plans: gbs=64 seq=1024 ...",
                 &request.input.settings);
  CostFlags cost_flags(&flags, &request);
  flags.Choice("format", {"text", "json"}, "output format", &format);
  flags.Bool("require-fit", "exit with status 1 if a program does not fit the device", &require_fit);
  flags.Example("weft compare gpt2.weft cut.weft --cluster=dgx-h100");
  flags.Example("weft compare a.textproto b.textproto --model=gpt2 --cluster=dgx-a100-80g --set gbs=64 --set seq=1024");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 2, std::numeric_limits<int>::max()));
  if (flags.help_wanted()) return Print(flags.Help());
  if (flags.positional().size() > kMaxPrograms) {
    return UsageError(
        absl::StrCat(flags.positional().size(), " files are given; one table holds at most ", kMaxPrograms));
  }
  for (const std::string& file : flags.positional()) {
    if (file.empty()) return UsageError("a file name is empty; give the path of a program or plan");
  }
  for (const char* flag : {"recipe", "set"}) {
    if (request.input.model.empty() && flags.Given(flag)) {
      return UsageError(absl::StrCat("--", flag, " needs --model, which compiles plans; without --model, ",
                                     Quoted(flags.positional()[0]), " must be a program"));
    }
  }
  WEFT_RETURN_IF_ERROR(cost_flags.Finish());

  Progress progress;
  std::vector<sim::SimulatedProgram> programs;
  std::vector<NoteOfPrograms> notes;
  // The error of the first program that does not fit.
  absl::Status fits;
  for (const std::string& file : flags.positional()) {
    WEFT_ASSIGN_OR_RETURN(sim::SimulatedProgram program,
                          SimulateOne(file, request, &progress, &request.input.cluster, &notes, &fits));
    programs.push_back(std::move(program));
  }
  progress.Done();
  for (const NoteOfPrograms& note : notes) {
    const bool of_all = note.files.size() == programs.size();
    PrintNote(absl::StrCat(of_all ? "" : absl::StrCat(absl::StrJoin(note.files, ", "), ": "), note.text));
  }
  const ProgramComparisonReport report = sim::ComparePrograms(std::move(programs));
  std::string text = PrintableLines(sim::ProgramComparisonText(report));
  if (format == "json") {
    WEFT_ASSIGN_OR_RETURN(text, MessageToJson(report));
  }
  WEFT_RETURN_IF_ERROR(Print(text));
  return require_fit ? fits : absl::OkStatus();
}

}  // namespace weft
