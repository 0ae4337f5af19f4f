// weft schedule: shows a pipeline schedule without a model.
#include "schedules/pipeline/schedule.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "cli/schedule/schedule_load.h"
#include "cli/schedule/schedule_view.h"
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

// Reports lanes without a slot, which a file can have by mistake.
std::string UnusedLanes(const PipelineSchedule& schedule) {
  std::vector<bool> used(schedule.lanes);
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) used[slot.lane] = true;
  }
  std::string lines;
  for (int lane = 0; lane < schedule.lanes; ++lane) {
    if (used[lane]) continue;
    absl::StrAppend(&lines, "lane ", lane, " has no microbatch; its ranks keep its stages' weights all the same\n");
  }
  return lines;
}

std::string LastLine(const LoadedSchedule& loaded) {
  if (loaded.entry == nullptr) return UnusedLanes(loaded.timed.schedule);
  if (!loaded.report.has_closed_form_makespan()) return absl::StrCat("source: ", loaded.entry->source, "\n");
  return absl::StrCat("closed form (free transfers): makespan ", loaded.report.closed_form_is_bound() ? "at most " : "",
                      JsonNumber(loaded.report.closed_form_makespan()), "; source: ", loaded.entry->source, "\n");
}

}  // namespace

namespace {

// Errors of schedules name the parameter as plans do; this replaces it by the flag.
absl::Status InFlags(const absl::Status& status, bool given) {
  if (!given) return status;
  return absl::Status(status.code(), absl::StrReplaceAll(status.message(), {{"virtual_stages", "--virtual"}}));
}

}  // namespace

absl::Status ScheduleCommand(absl::Span<const std::string> args) {
  int64_t ranks = 0, microbatches = 0;
  int64_t forward = 1 * kScale, backward = 2 * kScale, weight = 1 * kScale, pair = 0, p2p = 0;
  int64_t virtual_stages = 0, waves = 0, lanes = 0, limit = 0, group = 0, activation_cap = 0;
  std::string scaling = kScalings[0], format = "text", compare, csv_form = "compute_only", dialect = "torch";
  std::string file_form = "auto", file_dialect = "auto", communicators = kCommunicators[0];
  ScheduleRequest request;
  bool grouped = false;
  Flags flags(
      "weft schedule", "NAME|FILE [flags]",
      "Shows a pipeline schedule without a model: when each rank works on which microbatch, how long it idles and\n"
      "why, and how many microbatches' activations it holds. NAME is one of `weft list schedules`; FILE is one of\n"
      "your own, in weft's text form or as PyTorch's CSV (docs/schedule_files.md).");
  flags.Int("ranks", "P", "pipeline ranks; by default 4, or the file's", &ranks, 1, kMaximumCount);
  flags.Int("microbatches", "N", "microbatches of one step; by default 8, or the file's", &microbatches, 1,
            kMaximumCount);
  flags.Thousandths("forward", "T", "time of one microbatch's forward on one rank, in any unit", &forward, 1,
                    kLargestCost);
  flags.Thousandths("backward", "T", "time of its backward", &backward, 1, kLargestCost);
  flags.Thousandths("weight", "T", "of that, time of the weight gradients; half of --backward if only that is given",
                    &weight, 0, kLargestCost);
  flags.Thousandths("pair", "T", "time of a forward and a backward that overlap; 0 = the sum", &pair, 0, kLargestCost);
  flags.Thousandths("p2p", "T", "time from a result to its use on another rank", &p2p, 0, kLargestCost);
  flags.Int("virtual", "V", "stages per rank; by default the schedule's choice, as of the next four", &virtual_stages,
            1, kMaximumCount);
  flags.Int("waves", "W", "waves through the ranks and back (hanayo)", &waves, 1, kMaximumCount);
  flags.Int("lanes", "L", "passes of the pipeline in both directions (chimera)", &lanes, 1, kMaximumCount);
  flags.Int("limit", "M", "microbatches in flight", &limit, 1, kMaximumCount);
  flags.Int("group", "G", "microbatches that a rank does of one stage before the next (interleaved)", &group, 1,
            kMaximumCount);
  flags.Choice("scaling", kScalings, "how chimera uses more microbatches than ranks", &scaling);
  flags.Thousandths(
      "activation-cap", "M",
      "refuse a schedule with a rank that ever holds the activations of more microbatches than this, each "
      "counted as one whole rank's; --compare leaves it out",
      &activation_cap, 1, kLargestCost);
  flags.Bool("freeze", "make a message-driven schedule the static one that it is with these times", &request.freeze);
  flags.String("compare", "NAME,...",
               "one line for NAME and for each of these, the fastest first; \"all\": all that exist for these P and N. "
               "Each gets the parameters that it takes",
               &compare);
  flags.Choice("format", {"text", "json", "csv", "svg", "schedule"},
               "csv: for PyTorch's pipeline runtime; schedule: weft's text form", &format);
  flags.Choice("csv-form", {"compute_only", "compute_comms"}, "what --format=csv holds; compute_comms: transfers too",
               &csv_form);
  flags.Choice("dialect", {"torch", "torch-2.5", "late-2024"}, "which PyTorch --format=csv is for", &dialect);
  flags.Choice("file-form", Strings(kCsvForms), "what FILE holds", &file_form);
  flags.Choice("file-dialect", Strings(kCsvDialects), "which PyTorch FILE is from", &file_dialect);
  flags.Choice("communicators", kCommunicators,
               "check that the transfers of csv-form=compute_comms cannot block if they share communicators so",
               &communicators);
  flags.Bool("grouped", "... and neighbouring transfers start together", &grouped);
  flags.Example("weft schedule zb-h1 --ranks=4 --microbatches=8 --p2p=0.25 --compare=all");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  if (flags.Given("backward") && !flags.Given("weight")) weight = backward / 2;
  if (weight > backward) {
    return UsageError(absl::StrCat("--weight=", JsonNumber(weight / double{kScale}), ": allowed: at most --backward=",
                                   JsonNumber(backward / double{kScale}), "; see weft schedule --help"));
  }

  request.name = flags.positional()[0];
  request.scale = kScale;
  request.csv = {.dialect = Choose<CsvDialect>(kCsvDialects, file_dialect),
                 .form = Choose<CsvForm>(kCsvForms, file_form)};
  request.params = {
      .ranks = static_cast<int>(ranks),
      .microbatches = static_cast<int>(microbatches),
      .costs = {.forward = forward, .backward = backward, .weight = weight, .pair = pair, .p2p = p2p},
      .virtual_stages = static_cast<int>(virtual_stages),
      .waves = static_cast<int>(waves),
      .lanes = static_cast<int>(lanes),
      .limit = static_cast<int>(limit),
      .group = static_cast<int>(group),
      .scaling = Choose<Scaling>(kScalings, scaling),
  };
  if (activation_cap > 0) request.activation_cap = Ratio{activation_cap, kScale};
  for (const char* flag : {"csv-form", "dialect"}) {
    if (!flags.Given(flag) || format == "csv") continue;
    return UsageError(absl::StrCat("--", flag, " is for --format=csv, but the format is ", format,
                                   "; what FILE holds is said by --file-form and --file-dialect; see weft schedule "
                                   "--help"));
  }

  if (!compare.empty()) {
    if (format != "text" && format != "json") {
      return UsageError("--compare has --format=text and json; see weft schedule --help");
    }
    if (flags.Given("communicators") || grouped) {
      return UsageError(
          "--communicators and --grouped check one schedule, without --compare; see weft schedule --help");
    }
    WEFT_ASSIGN_OR_RETURN(const ScheduleComparisonReport report,
                          CompareSchedules(request, absl::StrSplit(compare, ',')));
    if (format == "text") return Print(ScheduleComparison(report));
    WEFT_ASSIGN_OR_RETURN(const std::string json, MessageToJson(report));
    return Print(json);
  }

  absl::StatusOr<LoadedSchedule> loaded_or = LoadSchedule(request);
  if (!loaded_or.ok()) return InFlags(loaded_or.status(), flags.Given("virtual"));
  LoadedSchedule& loaded = *loaded_or;
  if (flags.Given("communicators") || grouped) {
    WEFT_ASSIGN_OR_RETURN(const ActionLists lists, ActionsOf(loaded, CsvForm::kComputeComms));
    const TransferOptions options = {.communicators = Choose<Communicators>(kCommunicators, communicators),
                                     .grouped = grouped};
    WEFT_RETURN_IF_ERROR(Annotate(CheckTransfers(lists, options), loaded.timed.name));
    loaded.report.mutable_transfer_check()->set_communicators(communicators);
    loaded.report.mutable_transfer_check()->set_grouped(grouped);
  }
  if (format == "csv") {
    WEFT_ASSIGN_OR_RETURN(const ActionLists lists, ActionsOf(loaded, Choose<CsvForm>(kCsvForms, csv_form)));
    WEFT_ASSIGN_OR_RETURN(const std::string csv, FormatPytorchCsv(lists, Choose<CsvDialect>(kCsvDialects, dialect)));
    return Print(csv);
  }
  const TimedSchedule& timed = loaded.timed;
  if (format == "schedule") {
    return Print(FormatSchedule({loaded.own_name, timed.schedule, timed.microbatches, {}}));
  }
  if (format == "svg") {
    WEFT_ASSIGN_OR_RETURN(const std::string svg, ScheduleSvg(timed, loaded.report));
    return Print(svg);
  }
  if (format == "json") {
    WEFT_ASSIGN_OR_RETURN(const std::string json, MessageToJson(loaded.report));
    return Print(json);
  }
  return Print(absl::StrCat(ScheduleTable(loaded.report), "\n", ScheduleTimeline(timed, OutputWidth(), ColourOutput()),
                            "\n", LastLine(loaded)));
}

}  // namespace weft
