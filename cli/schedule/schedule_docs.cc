// Writes docs/schedules.md: every registered schedule with its formulas, its times and memory at some sizes, and a
// drawing.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/schedule/schedule_load.h"
#include "cli/schedule/schedule_notes.h"
#include "cli/schedule/schedule_view.h"
#include "proto/io/json.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

constexpr int kDrawingWidth = 240;
constexpr int kRanks = 4, kMicrobatches = 8;
constexpr int64_t kScale = 1000;

// The sizes to measure, as pairs of ranks and microbatches.
constexpr std::pair<int, int> kSizes[] = {{2, 4}, {4, 4}, {4, 8}, {4, 16}, {8, 8}, {8, 16}, {8, 32}};
// Latencies of transfers, in thousandths of a forward.
constexpr int64_t kLatencies[] = {0, 250, 500, 1000};

// Times a schedule with F = 1, B = 2, I = W = 1 per microbatch and rank.
absl::StatusOr<LoadedSchedule> Measure(const ScheduleEntry& entry, int ranks, int microbatches, int64_t p2p = 0) {
  ScheduleRequest request;
  request.name = std::string(entry.name);
  request.scale = kScale;
  request.params = {.ranks = ranks,
                    .microbatches = microbatches,
                    .costs = {.forward = kScale, .backward = 2 * kScale, .weight = kScale, .p2p = p2p}};
  return LoadSchedule(request);
}

double Peak(const ScheduleReport& report) {
  double peak = 0;
  for (const ScheduleRank& rank : report.per_rank()) peak = std::max(peak, rank.peak_activations());
  return peak;
}

std::string Cell(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string Link(absl::string_view name) { return absl::StrCat("[", name, "](#", name, ")"); }

std::string Overview() {
  std::string text =
      "| schedule | exists for | bubble | activations | flags | in PyTorch's CSV |\n|---|---|---|---|---|---|\n";
  for (const ScheduleEntry& entry : Schedules()) {
    const ScheduleNotes* notes = FindScheduleNotes(entry.name);
    const absl::StatusOr<LoadedSchedule> loaded = Measure(entry, kRanks, kMicrobatches);
    std::string csv = "?";
    if (loaded.ok()) {
      const TimedSchedule& timed = loaded->timed;
      csv = ToActionLists(timed.schedule, timed.microbatches).ok() ? "yes"
            : timed.schedule.message_driven                        ? "with `--freeze`"
            : timed.schedule.asynchrony                            ? "no: asynchronous"
                                                                   : "no: a stage on several ranks";
    }
    const std::string flags = absl::StrReplaceAll(TakenFlags(entry), {{" ", "` `"}});
    absl::StrAppend(&text, "| ", Link(entry.name), " | ", notes ? Cell(notes->constraints) : "", " | ",
                    notes ? Cell(notes->bubble) : "", " | ", notes ? Cell(notes->activations) : "", " | ",
                    flags.empty() ? "" : absl::StrCat("`", flags, "`"), " | ", csv, " |\n");
  }
  return text;
}

std::string Measured() {
  std::vector<std::string> sizes;
  for (const auto& [ranks, microbatches] : kSizes) sizes.push_back(absl::StrCat("P=", ranks, " N=", microbatches));
  std::string text = absl::StrCat("| schedule | ", absl::StrJoin(sizes, " | "), " | weights |\n|---|",
                                  absl::StrReplaceAll(std::string(sizes.size() + 1, '-'), {{"-", "---|"}}), "\n");
  for (const ScheduleEntry& entry : Schedules()) {
    absl::StrAppend(&text, "| ", Link(entry.name));
    double weights = 0;
    for (const auto& [ranks, microbatches] : kSizes) {
      const absl::StatusOr<LoadedSchedule> loaded = Measure(entry, ranks, microbatches);
      if (!loaded.ok()) {
        absl::StrAppend(&text, " | -");
        continue;
      }
      const ScheduleReport& report = loaded->report;
      if (ranks == kRanks && microbatches == kMicrobatches) weights = report.weight_copies();
      absl::StrAppend(&text, " | ", JsonNumber(report.makespan()));
      if (report.span() != report.makespan()) absl::StrAppend(&text, " (s ", JsonNumber(report.span()), ")");
      if (report.period() != report.makespan()) absl::StrAppend(&text, " (p ", JsonNumber(report.period()), ")");
      absl::StrAppend(&text, " / ", JsonNumber(Peak(report)));
    }
    absl::StrAppend(&text, " | ", JsonNumber(weights), " |\n");
  }
  return text;
}

std::string Latency() {
  struct Row {
    const ScheduleEntry* entry;
    std::vector<double> makespans;
  };
  std::vector<Row> rows;
  for (const ScheduleEntry& entry : Schedules()) {
    Row row = {&entry, {}};
    for (int64_t latency : kLatencies) {
      const absl::StatusOr<LoadedSchedule> loaded = Measure(entry, kRanks, kMicrobatches, latency);
      if (loaded.ok()) row.makespans.push_back(loaded->report.makespan());
    }
    if (row.makespans.size() == std::size(kLatencies)) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.makespans[0] < b.makespans[0]; });
  // The rank of a row by makespan: 1 + the number of faster schedules.
  auto place = [&](const Row& row, size_t latency) {
    return 1 + std::count_if(rows.begin(), rows.end(),
                             [&](const Row& other) { return other.makespans[latency] < row.makespans[latency]; });
  };
  std::string text = "| schedule |";
  for (int64_t latency : kLatencies) absl::StrAppend(&text, " ", JsonNumber(latency / double{kScale}), " |");
  absl::StrAppend(&text, " place at 0 | place at 1 |\n|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    absl::StrAppend(&text, "| ", Link(row.entry->name), " |");
    for (double makespan : row.makespans) absl::StrAppend(&text, " ", JsonNumber(makespan), " |");
    absl::StrAppend(&text, " ", place(row, 0), " | ", place(row, std::size(kLatencies) - 1), " |\n");
  }
  return text;
}

std::string Section(const ScheduleEntry& entry) {
  std::string text = absl::StrCat("### ", entry.name, "\n");
  const ScheduleNotes* notes = FindScheduleNotes(entry.name);
  if (notes != nullptr) absl::StrAppend(&text, notes->use, "\n\n");
  const int microbatches = kRanks * (notes != nullptr ? notes->drawn : 1);
  if (const absl::StatusOr<LoadedSchedule> loaded = Measure(entry, kRanks, microbatches); loaded.ok()) {
    absl::StrAppend(&text, "```\n", ScheduleTimeline(loaded->timed, kDrawingWidth, /*color=*/false), "```\n");
    const ScheduleReport& report = loaded->report;
    absl::StrAppendFormat(&text, "P = %d, N = %d: makespan %s", kRanks, microbatches, JsonNumber(report.makespan()));
    if (report.has_closed_form_makespan()) {
      absl::StrAppend(&text, " (formula: ", report.closed_form_is_bound() ? "at most " : "",
                      JsonNumber(report.closed_form_makespan()), ")");
    }
    if (report.span() != report.makespan()) absl::StrAppend(&text, ", span ", JsonNumber(report.span()));
    if (report.period() != report.makespan()) {
      absl::StrAppend(&text, ", a further step adds ", JsonNumber(report.period()));
    }
    std::vector<std::string> peaks;
    for (const ScheduleRank& rank : report.per_rank()) peaks.push_back(JsonNumber(rank.peak_activations()));
    absl::StrAppend(&text, "; activations ", absl::StrJoin(peaks, ", "), ".\n\n");
  }
  absl::StrAppend(&text, "Source: ", entry.source, ".\n");
  return text;
}

std::string Document() {
  std::string text =
      "<!-- Generated by //cli/schedule:schedule_docs from schedules/pipeline and cli/schedule/schedule_notes.def; do "
      "not edit. -->\n"
      "# Which pipeline schedule should I use?\n\n"
      "This page is for whoever chooses `schedule` of a plan. It has the bubble, the memory and a drawing of each\n"
      "schedule, and says when to use it. All figures are exact and need no model. To see a schedule with your sizes\n"
      "and times, run `weft schedule NAME`; `weft schedule NAME --compare=all` ranks all that exist for them. You can\n"
      "also write your own ([schedule_files.md](schedule_files.md)).\n\n"
      "| symbol | meaning |\n"
      "|---|---|\n"
      "| P, N | ranks; microbatches of a step |\n"
      "| r | a rank, from 0 |\n"
      "| F, B | time of a microbatch's forward and backward on one rank; with v stages per rank a slot takes 1/v of it "
      "|\n"
      "| I, W | the parts of B: the input's gradient and the weights' gradient |\n"
      "| F&B | time of a forward and a backward that overlap |\n\n"
      "## Which schedules are there?\n"
      "The bubble is makespan - N(F+B), with equal stages, free transfers and B = 2F unless stated otherwise.\n"
      "Activations are the most microbatches that a rank holds. Brackets hold the default of a parameter.\n\n";
  absl::StrAppend(
      &text, Overview(),
      "\n## How long do they take, and how much do they hold?\n"
      "Each cell has the makespan and the activations of the rank that holds most, at F = 1, B = 2, I = W = 1 and "
      "free\n"
      "transfers. The ideal makespan is 3N.\n\n"
      "- s: the span, if it is less than the makespan. It is the longest time from a rank's own first start to its "
      "own\n"
      "  last end. Papers on halved backwards quote it, and it counts if ranks do not wait for each other between "
      "steps.\n"
      "- p: the time that a further step adds to an asynchronous schedule.\n"
      "- `-`: the schedule does not exist for these sizes.\n"
      "- Weights: copies of the model that all ranks together keep, at P = 4 and N = 8. Compare a schedule with two\n"
      "  copies on P ranks with others on P/2 ranks with twice the stages each.\n\n",
      Measured(),
      "\n## What if transfers take time?\n"
      "Schedules that win on fast links lose on slow ones. The table has the makespan at P = ",
      kRanks, ", N = ", kMicrobatches,
      ", F = 1, B = 2.\nA column's number is how long a result takes from its rank to the next.\n\n", Latency(),
      "\n## One by one\n");
  for (const ScheduleEntry& entry : Schedules()) absl::StrAppend(&text, "\n", Section(entry));
  return text;
}

}  // namespace
}  // namespace weft

int main() {
  const std::string text = weft::Document();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
