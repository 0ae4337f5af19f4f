// weft schedule: a pipeline schedule without a model.
#include "schedules/pipeline/schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/schedule_view.h"
#include "cli/terminal.h"
#include "proto/json.h"
#include "proto/status.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

// Costs are kept in thousandths (Flags::Thousandths).
constexpr int64_t kScale = 1000;
constexpr int64_t kLargestCost = 10'000'000 * kScale;

struct Timed {
  PipelineSchedule schedule;
  ScheduleTiming timing;
  ScheduleReport report;
};

absl::StatusOr<Timed> BuildAndTime(const ScheduleEntry& entry, const ScheduleParams& params, const SlotCosts& costs) {
  Timed timed;
  WEFT_ASSIGN_OR_RETURN(timed.schedule, BuildSchedule(entry, params));
  WEFT_ASSIGN_OR_RETURN(timed.timing, TimeSchedule(timed.schedule, params.microbatches, costs));
  timed.report = MakeScheduleReport(entry.name, params.microbatches, timed.timing, kScale);
  return timed;
}

std::string ClosedFormLine(const ScheduleEntry& entry, const ScheduleParams& params) {
  const std::optional<ClosedForm> form = entry.closed_form ? entry.closed_form(params) : std::nullopt;
  if (!form || !form->makespan) return absl::StrCat("source: ", entry.source, "\n");
  const double makespan = form->makespan->numerator / static_cast<double>(form->makespan->denominator * kScale);
  return absl::StrFormat("closed form (free transfers): makespan %s%s; source: %s\n",
                         form->makespan_is_bound ? "at most " : "", JsonNumber(makespan), entry.source);
}

absl::StatusOr<std::string> Compare(const std::vector<const ScheduleEntry*>& entries, const ScheduleParams& params,
                                    const SlotCosts& costs) {
  std::string text = "  schedule          makespan     bubble  peak activations\n";
  for (const ScheduleEntry* entry : entries) {
    WEFT_ASSIGN_OR_RETURN(const Timed timed, BuildAndTime(*entry, params, costs));
    double peak = 0;
    for (const ScheduleRank& rank : timed.report.per_rank()) peak = std::max(peak, rank.peak_activations());
    absl::StrAppendFormat(&text, "  %-14s %11s %8.2f %% %17s\n", entry->name, JsonNumber(timed.report.makespan()),
                          100 * timed.report.bubble_ratio(), JsonNumber(peak));
  }
  return text;
}

}  // namespace

absl::Status ScheduleCommand(absl::Span<const std::string> args) {
  int64_t ranks = 4, microbatches = 8;
  int64_t forward = 1 * kScale, backward = 2 * kScale, p2p = 0;
  std::string format = "text", compare;
  Flags flags(
      "weft schedule", "NAME [flags]",
      "Shows a pipeline schedule (one of `weft list schedules`) without a model: when each rank works on which\n"
      "microbatch, how long it idles, and how many microbatches' activations it holds.");
  flags.Int("ranks", "P", "pipeline ranks", &ranks, 1, int64_t{1} << 23);
  flags.Int("microbatches", "N", "microbatches of one step", &microbatches, 1, int64_t{1} << 23);
  flags.Thousandths("forward", "T", "time of one microbatch's forward on one rank, in any unit", &forward, 1,
                    kLargestCost);
  flags.Thousandths("backward", "T", "time of its backward", &backward, 1, kLargestCost);
  flags.Thousandths("p2p", "T", "time from a result to its use on another rank", &p2p, 0, kLargestCost);
  flags.String("compare", "NAME,...", "one line for NAME and for each of these (or \"all\")", &compare);
  flags.Choice("format", {"text", "json", "csv", "svg"}, "csv: the slots of each rank as PyTorch's runtime reads them",
               &format);
  flags.Example("weft schedule 1f1b --ranks=4 --microbatches=8 --forward=1 --backward=2");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());

  std::vector<const ScheduleEntry*> entries;
  std::vector<std::string> names = {flags.positional()[0]};
  if (compare == "all") {
    for (const ScheduleEntry& entry : Schedules()) {
      if (entry.name != names[0]) names.emplace_back(entry.name);
    }
  } else if (!compare.empty()) {
    for (absl::string_view name : absl::StrSplit(compare, ',')) names.emplace_back(name);
  }
  for (const std::string& name : names) {
    const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(name);
    if (!entry.ok()) return UsageError(entry.status().message());
    entries.push_back(*entry);
  }
  const SlotCosts costs = {.forward = forward, .backward = backward, .p2p = p2p};
  const ScheduleParams params = {
      .ranks = static_cast<int>(ranks), .microbatches = static_cast<int>(microbatches), .costs = costs};
  if (!compare.empty()) {
    if (format != "text") return UsageError("--compare has --format=text only; see weft schedule --help");
    WEFT_ASSIGN_OR_RETURN(const std::string text, Compare(entries, params, costs));
    return Print(text);
  }

  WEFT_ASSIGN_OR_RETURN(const Timed timed, BuildAndTime(*entries[0], params, costs));
  if (format == "csv") return Print(ScheduleCsv(timed.schedule));
  if (format == "svg") return Print(ScheduleSvg(timed.schedule, timed.timing, timed.report));
  if (format == "json") {
    WEFT_ASSIGN_OR_RETURN(const std::string json, MessageToJson(timed.report));
    return Print(json);
  }
  return Print(absl::StrCat(ScheduleTable(timed.report), "\n",
                            ScheduleTimeline(timed.schedule, timed.timing, kScale, OutputWidth(), ColourOutput()), "\n",
                            ClosedFormLine(*entries[0], params)));
}

}  // namespace weft
