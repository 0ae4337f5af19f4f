// weft schedule: shows a pipeline schedule without a model.
#include "schedules/pipeline/schedule.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "cli/schedule/schedule_load.h"
#include "cli/schedule/schedule_synthesis.h"
#include "cli/schedule/schedule_view.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/util/status.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/pytorch_csv.h"
#include "schedules/pipeline/schedule_text.h"
#include "schedules/pipeline/transfer_check.h"

namespace weft {
namespace {

// Costs are kept in thousandths (Flags::Thousandths).
constexpr int64_t kScale = 1000;
constexpr int64_t kLargestCost = 10'000'000 * kScale;
constexpr int64_t kMaximumCount = int64_t{1} << 23;

const std::vector<std::string> kScalings = {"concatenation", "forward-doubling", "backward-halving"};
const std::vector<std::string> kCommunicators = {"per-edge", "per-direction", "one"};

template <typename Enum, typename Names>
Enum Choose(const Names& names, absl::string_view chosen) {
  return static_cast<Enum>(std::find(std::begin(names), std::end(names), chosen) - std::begin(names));
}

template <size_t n>
std::vector<std::string> Strings(const absl::string_view (&names)[n]) {
  return std::vector<std::string>(std::begin(names), std::end(names));
}

// Reports lanes without a slot. A schedule file can contain such lanes by mistake.
std::string UnusedLanes(const PipelineSchedule& schedule) {
  std::vector<bool> used(schedule.lanes);
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) used[slot.lane] = true;
  }
  std::string lines;
  for (int lane = 0; lane < schedule.lanes; ++lane) {
    if (used[lane]) continue;
    absl::StrAppend(&lines, "lane ", lane, " has no microbatch, but its ranks still hold the weights of its stages\n");
  }
  return lines;
}

std::string LastLine(const LoadedSchedule& loaded) {
  if (loaded.entry == nullptr) return UnusedLanes(loaded.timed.schedule);
  if (!loaded.report.has_closed_form_makespan()) return absl::StrCat("source: ", loaded.entry->source, "\n");
  return absl::StrCat("closed form (free transfers): makespan ", loaded.report.closed_form_is_bound() ? "at most " : "",
                      JsonNumber(loaded.report.closed_form_makespan()), "; source: ", loaded.entry->source, "\n");
}

// Replaces plan parameters in an error of a schedule by their flags: virtual_stages by --virtual.
absl::Status InFlags(const absl::Status& status, bool given) {
  if (!given) return status;
  return absl::Status(status.code(), absl::StrReplaceAll(status.message(), {{"virtual_stages", "--virtual"}}));
}

// The command line, as it was given.
struct ScheduleFlags {
  int64_t ranks = 0, microbatches = 0;
  StageTimes times = {.forward = {1 * kScale}, .backward = {2 * kScale}, .input = {}, .weight = {1 * kScale}};
  bool by_stage = false;
  int64_t pair = 0, p2p = 0;
  int64_t virtual_stages = 0, waves = 0, lanes = 0, limit = 0, group = 0, activation_cap = 0;
  std::string scaling = kScalings[0], format = "text", compare, csv_form = "compute_only", dialect = "torch";
  std::string file_form = "auto", file_dialect = "auto", communicators = kCommunicators[0];
  bool freeze = false, grouped = false;
  bool synthesize = false, whole = false, replicas = false;
  std::vector<int64_t> activations;
  int64_t seed = 1, effort = 1;
  std::string output;
};

void DeclareFlags(Flags& flags, ScheduleFlags& f) {
  flags.Int("ranks", "P", "pipeline ranks; by default 4, or the ranks of FILE", &f.ranks, 1, kMaximumCount);
  flags.Int("microbatches", "N", "microbatches of one step; by default 8, or the microbatches of FILE", &f.microbatches,
            1, kMaximumCount);
  flags.ThousandthsList("forward", "T[,T...]",
                        "time of one microbatch's forward on one rank, in any unit; several times: of each stage",
                        &f.times.forward, 1, kLargestCost);
  flags.ThousandthsList("backward", "T[,T...]", "time of one microbatch's backward, likewise", &f.times.backward, 1,
                        kLargestCost);
  flags.ThousandthsList(
      "input", "T[,T...]",
      "time of the input half of a backward, if the halves together do not take as long as --backward", &f.times.input,
      0, kLargestCost);
  flags.ThousandthsList("weight", "T[,T...]",
                        "the part of --backward for the weight gradients; by default half, if --backward is given",
                        &f.times.weight, 0, kLargestCost);
  flags.Thousandths("pair", "T", "time of a forward and a backward that overlap; 0 = the sum of both", &f.pair, 0,
                    kLargestCost);
  flags.Thousandths("p2p", "T", "time of a transfer: from a result to its use on another rank", &f.p2p, 0,
                    kLargestCost);
  flags.Int("virtual", "V",
            "stages per rank; the schedule chooses the values of this and the next four flags that are not given",
            &f.virtual_stages, 1, kMaximumCount);
  flags.Int("waves", "W", "waves through the ranks and back (hanayo)", &f.waves, 1, kMaximumCount);
  flags.Int("lanes", "L", "pipelines over the same ranks, half of them in each direction (chimera)", &f.lanes, 1,
            kMaximumCount);
  flags.Int("limit", "M", "largest number of microbatches in flight", &f.limit, 1, kMaximumCount);
  flags.Int("group", "G", "microbatches that a rank runs on one stage before its next stage (interleaved)", &f.group, 1,
            kMaximumCount);
  flags.Choice("scaling", kScalings, "how chimera uses more microbatches than ranks", &f.scaling);
  flags.Thousandths("activation-cap", "M",
                    "refuse a schedule if a rank ever holds the activations of more than M microbatches (1 = one "
                    "microbatch in all stages of a rank); --compare leaves such schedules out",
                    &f.activation_cap, 1, kLargestCost);
  flags.Bool("freeze",
             "turn a message-driven schedule into a static one, in the order that results from the given times",
             &f.freeze);
  flags.String("compare", "NAME,...",
               "print one line for NAME and for each of these, the fastest first; \"all\": all schedules that exist "
               "for these P and N. Each schedule gets only the parameters that it takes",
               &f.compare);
  flags.Bool("synthesize",
             "instead of NAME: search for the fastest order for these times; see docs/synthesis.md for this and the "
             "next flags",
             &f.synthesize);
  flags.ThousandthsList("activations", "A,A...",
                        "with --synthesize: the activations of one microbatch in each stage, in the unit of "
                        "--activation-cap; by default equal",
                        &f.activations, 0, kLargestCost);
  flags.Bool("whole", "with --synthesize: run backwards whole, not in halves", &f.whole);
  flags.Bool("replicas", "with --synthesize: allow two lanes in opposite directions, with two copies of the weights",
             &f.replicas);
  flags.Int("seed", "N", "with --synthesize: another seed may find another order", &f.seed, 1, kMaximumCount);
  flags.Int("effort", "N", "with --synthesize: search N times as long", &f.effort, 1, 100);
  flags.String("output", "FILE", "write the schedule to this file too, in weft's text form", &f.output);
  flags.Short('o', "output");
  flags.Choice("format", {"text", "json", "csv", "svg", "schedule"},
               "the output format; csv: for PyTorch's pipeline runtime; schedule: weft's text form", &f.format);
  flags.Choice("csv-form", {"compute_only", "compute_comms"},
               "what --format=csv prints; compute_comms: also the transfers", &f.csv_form);
  flags.Choice("dialect", {"torch", "torch-2.5", "late-2024"},
               "the PyTorch version that reads the output of --format=csv", &f.dialect);
  flags.Choice("file-form", Strings(kCsvForms),
               "what FILE holds, if it is PyTorch's CSV; compute_comms: also the transfers", &f.file_form);
  flags.Choice("file-dialect", Strings(kCsvDialects), "the PyTorch version that wrote FILE", &f.file_dialect);
  flags.Choice(
      "communicators", kCommunicators,
      "check that the transfers of --csv-form=compute_comms cannot deadlock if they share communicators this way",
      &f.communicators);
  flags.Bool("grouped", "with --communicators: transfers next to each other start together", &f.grouped);
  flags.Example("weft schedule --synthesize --forward=1,1,1,1.5 --backward=2,2,2,3 --activation-cap=4 -o my.schedule");
  flags.Example("weft schedule zb-h1 --ranks=4 --microbatches=8 --p2p=0.25 --compare=all");
}

// Fills in the times that follow from others.
absl::Status CompleteTimes(const Flags& flags, ScheduleFlags& f) {
  StageTimes& times = f.times;
  f.by_stage = f.synthesize || times.stages() > 0 || flags.Given("input");
  if (f.by_stage && flags.Given("pair")) {
    return UsageError(
        "--pair needs one time for all stages, not times by stage; leave it out; see weft schedule --help");
  }
  const bool halves = flags.Given("input") && flags.Given("weight");
  if (halves && !flags.Given("backward")) {
    if (times.input.size() != times.weight.size()) {
      return UsageError("--input and --weight without --backward need equally many times; see weft schedule --help");
    }
    times.backward = times.weight;
    for (size_t i = 0; i < times.input.size(); ++i) times.backward[i] += times.input[i];
  }
  if (flags.Given("input") && !flags.Given("weight")) {
    return UsageError("--input needs --weight too; see weft schedule --help");
  }
  if (flags.Given("backward") && !flags.Given("weight")) {
    times.weight = times.backward;
    for (int64_t& weight : times.weight) weight /= 2;
  }
  if (!f.by_stage && times.weight[0] > times.backward[0]) {
    return UsageError(absl::StrCat("--weight=", JsonNumber(times.weight[0] / double{kScale}),
                                   " is too large; allowed: at most --backward=",
                                   JsonNumber(times.backward[0] / double{kScale}), "; see weft schedule --help"));
  }
  return absl::OkStatus();
}

// Refuses what has no effect.
absl::Status CheckSynthesis(const Flags& flags, const ScheduleFlags& f) {
  if (!f.synthesize) {
    for (const char* flag : {"activations", "whole", "replicas", "seed", "effort"}) {
      if (flags.Given(flag))
        return UsageError(absl::StrCat("--", flag, " is for --synthesize; see weft schedule --help"));
    }
    return absl::OkStatus();
  }
  if (!flags.positional().empty()) {
    return UsageError(
        absl::StrCat("--synthesize makes a schedule; leave out ", flags.positional()[0], "; see weft schedule --help"));
  }
  for (const char* flag :
       {"waves", "lanes", "limit", "group", "scaling", "freeze", "compare", "file-form", "file-dialect"}) {
    if (flags.Given(flag)) {
      return UsageError(absl::StrCat("--", flag, " is not for --synthesize; see weft schedule --help"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const Flags& flags, ScheduleFlags& f) {
  WEFT_RETURN_IF_ERROR(CheckSynthesis(flags, f));
  WEFT_RETURN_IF_ERROR(CompleteTimes(flags, f));
  for (const char* flag : {"csv-form", "dialect"}) {
    if (!flags.Given(flag) || f.format == "csv") continue;
    return UsageError(absl::StrCat("--", flag, " is for --format=csv, but the format is ", f.format,
                                   "; to describe FILE, use --file-form and --file-dialect; see weft schedule --help"));
  }
  if (f.compare.empty()) return absl::OkStatus();
  if (f.format != "text" && f.format != "json") {
    return UsageError("--compare supports --format=text and json; see weft schedule --help");
  }
  if (flags.Given("communicators") || f.grouped) {
    return UsageError(
        "--communicators and --grouped check one schedule; give them without --compare; see weft schedule --help");
  }
  return absl::OkStatus();
}

ScheduleRequest RequestOf(const std::string& name, const ScheduleFlags& f) {
  ScheduleRequest request;
  request.name = name;
  request.scale = kScale;
  request.freeze = f.freeze;
  if (f.by_stage) request.stage_times = f.times;
  request.csv = {.dialect = Choose<CsvDialect>(kCsvDialects, f.file_dialect),
                 .form = Choose<CsvForm>(kCsvForms, f.file_form)};
  // Schedules that look at times see the average of the stages.
  const auto average = [](const std::vector<int64_t>& list) {
    return std::accumulate(list.begin(), list.end(), int64_t{0}) / static_cast<int64_t>(list.size());
  };
  const int64_t backward = average(f.times.backward);
  request.params = {
      .ranks = static_cast<int>(f.ranks == 0 ? f.times.stages() : f.ranks),
      .microbatches = static_cast<int>(f.microbatches),
      .costs = {.forward = average(f.times.forward),
                .backward = backward,
                .weight = std::min(backward, average(f.times.weight)),
                .pair = f.pair,
                .p2p = f.p2p},
      .virtual_stages = static_cast<int>(f.virtual_stages),
      .waves = static_cast<int>(f.waves),
      .lanes = static_cast<int>(f.lanes),
      .limit = static_cast<int>(f.limit),
      .group = static_cast<int>(f.group),
      .scaling = Choose<Scaling>(kScalings, f.scaling),
  };
  if (f.activation_cap > 0) request.activation_cap = Ratio{f.activation_cap, kScale};
  return request;
}

SynthesisRequest SynthesisRequestOf(const ScheduleFlags& f) {
  SynthesisRequest request;
  request.params = RequestOf("", f).params;
  request.scale = kScale;
  request.times = f.times;
  request.whole = f.whole;
  request.replicas = f.replicas;
  request.activation_cap = f.activation_cap;
  request.activations = f.activations;
  request.seed = static_cast<uint64_t>(f.seed);
  request.effort = static_cast<int>(f.effort);
  return request;
}

// Returns the comparison of --compare as it is printed.
absl::StatusOr<std::string> Compare(const ScheduleRequest& request, const ScheduleFlags& f) {
  WEFT_ASSIGN_OR_RETURN(const ScheduleComparisonReport report,
                        CompareSchedules(request, absl::StrSplit(f.compare, ',')));
  if (f.format == "text") return ScheduleComparison(report);
  return MessageToJson(report);
}

// Returns the schedule in the form of --format; with `synthesis`, also how good it is.
absl::StatusOr<std::string> Formatted(const LoadedSchedule& loaded, const SynthesisReport* synthesis,
                                      const ScheduleFlags& f) {
  const TimedSchedule& timed = loaded.timed;
  if (f.format == "csv") {
    WEFT_ASSIGN_OR_RETURN(const ActionLists lists, ActionsOf(loaded, Choose<CsvForm>(kCsvForms, f.csv_form)));
    return FormatPytorchCsv(lists, Choose<CsvDialect>(kCsvDialects, f.dialect));
  }
  if (f.format == "schedule") {
    return FormatSchedule({loaded.own_name, timed.schedule, timed.microbatches, {}});
  }
  if (f.format == "svg") return ScheduleSvg(timed, loaded.report);
  if (f.format == "json" && synthesis != nullptr) {
    SynthesisReport report = *synthesis;
    *report.mutable_schedule() = loaded.report;
    return MessageToJson(report);
  }
  if (f.format == "json") return MessageToJson(loaded.report);
  return absl::StrCat(ScheduleTable(loaded.report), "\n", ScheduleTimeline(timed, OutputWidth(), ColorOutput()), "\n",
                      synthesis != nullptr ? SynthesisText(*synthesis) : LastLine(loaded));
}

}  // namespace

absl::Status ScheduleCommand(absl::Span<const std::string> args) {
  ScheduleFlags f;
  Flags flags(
      "weft schedule", "NAME|FILE|--synthesize [flags]",
      "Shows a pipeline schedule without a model: when each rank works on which microbatch, how long it idles and\n"
      "why, and how many microbatches' activations it holds. NAME is one of `weft list schedules`; FILE is one of\n"
      "your own, in weft's text form or as PyTorch's CSV (docs/schedule_files.md).");
  DeclareFlags(flags, f);
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  if (flags.positional().empty() && !f.synthesize) {
    return UsageError(
        "an argument is missing; usage: weft schedule NAME|FILE|--synthesize [flags]; see weft schedule --help");
  }
  WEFT_RETURN_IF_ERROR(CheckFlags(flags, f));
  const ScheduleRequest request = RequestOf(f.synthesize ? "" : flags.positional()[0], f);
  if (!f.compare.empty()) {
    WEFT_ASSIGN_OR_RETURN(const std::string text, Compare(request, f));
    return Print(text);
  }
  std::optional<SynthesisReport> synthesis;
  absl::StatusOr<LoadedSchedule> loaded;
  if (f.synthesize) {
    WEFT_ASSIGN_OR_RETURN(SynthesizedSchedule synthesized, SynthesizeSchedule(SynthesisRequestOf(f)));
    synthesis = std::move(synthesized.report);
    loaded = std::move(synthesized.loaded);
  } else {
    loaded = LoadSchedule(request);
  }
  if (!loaded.ok()) return InFlags(loaded.status(), flags.Given("virtual"));
  if (flags.Given("communicators") || f.grouped) {
    WEFT_ASSIGN_OR_RETURN(const ActionLists lists, ActionsOf(*loaded, CsvForm::kComputeComms));
    const TransferOptions options = {.communicators = Choose<Communicators>(kCommunicators, f.communicators),
                                     .grouped = f.grouped};
    WEFT_RETURN_IF_ERROR(Annotate(CheckTransfers(lists, options), loaded->timed.name));
    loaded->report.mutable_transfer_check()->set_communicators(f.communicators);
    loaded->report.mutable_transfer_check()->set_grouped(f.grouped);
  }
  WEFT_ASSIGN_OR_RETURN(const std::string text, Formatted(*loaded, synthesis ? &*synthesis : nullptr, f));
  if (!f.output.empty()) {
    const TimedSchedule& timed = loaded->timed;
    WEFT_RETURN_IF_ERROR(
        WriteFileAtomic(f.output, FormatSchedule({loaded->own_name, timed.schedule, timed.microbatches, {}})));
  }
  return Print(text);
}

}  // namespace weft
