#include "cli/schedule/schedule_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/common/timeline.h"
#include "proto/io/json.h"
#include "schedules/pipeline/check.h"

namespace weft {
namespace {

// The table shows at most this many ranks; the JSON report has all.
constexpr int kShownRanks = 256;
// A drawing of more slots would be unreadable.
constexpr int64_t kDrawnSlots = int64_t{1} << 17;

std::string Percent(double ratio) { return absl::StrFormat("%.2f %%", 100 * ratio); }

// One slot of a rank's drawing, or one side of a pair. The two sides of a pair are drawn one after the other.
struct Part {
  Slot slot;
  int64_t start = 0;
  int64_t end = 0;
  bool in_pair = false;
};

std::vector<Part> PartsOf(const TimedSchedule& timed, size_t rank) {
  const std::vector<Slot>& order = timed.schedule.order[rank];
  std::vector<Part> parts;
  for (size_t i = 0; i < order.size(); ++i) {
    Part part = {.slot = order[i], .start = timed.timing.start[rank][i], .end = timed.timing.end[rank][i]};
    if (order[i].paired || (i > 0 && order[i - 1].paired)) {
      // A forward takes about a third of a pair. Use a half if a third would need a smaller time step in the drawing.
      const int64_t length = part.end - part.start;
      const int64_t forward = length % 3 != 0 && length % 2 == 0 ? length / 2 : length / 3;
      part.in_pair = true;
      (order[i].paired ? part.end : part.start) = part.start + forward;
    }
    parts.push_back(part);
  }
  // Sort the parts, because the slots of a message-driven schedule are not listed in time order.
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.start < b.start; });
  return parts;
}

char LetterOf(const Part& part) {
  switch (part.slot.kind) {
    case SlotKind::kForward:
      return part.in_pair ? 'p' : 'f';
    case SlotKind::kBackward:
      return part.in_pair ? 'P' : 'B';
    case SlotKind::kBackwardInput:
      return 'I';
    case SlotKind::kBackwardWeight:
      break;
  }
  return 'W';
}

// Returns the lane's letter ("b" for the second lane), or "/N" with its number if there are more than 26 lanes. Empty
// if there is only one lane.
std::string LaneSuffix(const PipelineSchedule& schedule, const Slot& slot) {
  if (schedule.lanes == 1) return "";
  return schedule.lanes <= 26 ? std::string(1, static_cast<char>('a' + slot.lane)) : absl::StrCat("/", slot.lane);
}

// For each stage of each lane, the number of earlier stages of the lane on the same rank.
class Chunks {
 public:
  explicit Chunks(const PipelineSchedule& schedule) {
    for (const std::vector<int>& lane : schedule.placement) {
      std::vector<int> held(schedule.order.size());
      std::vector<int>& of = of_.emplace_back();
      of.reserve(lane.size());
      for (int rank : lane) {
        of.push_back(held[rank]++);
        most_ = std::max(most_, held[rank]);
      }
    }
  }

  int StageOfRank(const Slot& slot) const { return of_[slot.lane][slot.stage]; }
  // The largest number of stages that a rank has in one lane.
  int most() const { return most_; }
  // "" for the first stage of a rank. "'" for the second if no rank has more than two; otherwise ".1" for the second,
  // ".2" for the third, and so on.
  std::string Suffix(const Slot& slot) const {
    const int chunk = StageOfRank(slot);
    if (chunk == 0) return "";
    return most_ == 2 ? "'" : absl::StrCat(".", chunk);
  }

 private:
  std::vector<std::vector<int>> of_;
  int most_ = 0;
};

int64_t SlotsOf(const PipelineSchedule& schedule, size_t ranks) {
  int64_t slots = 0;
  for (size_t rank = 0; rank < ranks; ++rank) slots += static_cast<int64_t>(schedule.order[rank].size());
  return slots;
}

// Escapes characters with a meaning in XML, for the text of an SVG.
std::string XmlEscaped(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Legend(const TimedSchedule& timed, int chunks) {
  bool whole = false, halves = false, pairs = false, wide = false;
  for (const std::vector<Slot>& order : timed.schedule.order) {
    for (const Slot& slot : order) {
      whole |= slot.kind == SlotKind::kBackward;
      halves |= slot.kind == SlotKind::kBackwardInput;
      pairs |= slot.paired;
      wide |= slot.width > 1;
    }
  }
  std::vector<std::string> parts = {"f forward"};
  if (whole) parts.push_back("B backward");
  if (halves) parts.push_back("I input gradient, W weight gradient");
  if (pairs) parts.push_back("p and P a forward and a backward that overlap");
  if (wide) parts.push_back("+ and the next microbatch");
  if (chunks == 2) {
    parts.push_back("' the rank's second stage");
  } else if (chunks > 2) {
    parts.push_back(".1 the rank's second stage, and so on");
  }
  if (timed.schedule.lanes > 1) {
    parts.push_back(timed.schedule.lanes <= 26 ? absl::StrFormat("lanes a to %c", 'a' + timed.schedule.lanes - 1)
                                               : "/ lane");
  }
  if (timed.schedule.asynchrony) parts.push_back("one repetition alone");
  return absl::StrJoin(parts, ", ");
}

}  // namespace

double WeightCopies(const PipelineSchedule& schedule) {
  // All (rank, stage) pairs that hold weights, each once.
  std::vector<std::pair<int, int>> held;
  for (const std::vector<int>& lane : schedule.placement) {
    for (int stage = 0; stage < schedule.stages; ++stage) held.emplace_back(lane[stage], stage);
  }
  std::sort(held.begin(), held.end());
  held.erase(std::unique(held.begin(), held.end()), held.end());
  int64_t copies = 0;
  for (const auto& [rank, stage] : held) copies += schedule.asynchrony ? schedule.asynchrony->versions[rank] : 1;
  return copies / static_cast<double>(std::max(schedule.stages, 1));
}

ScheduleReport MakeScheduleReport(const TimedSchedule& timed) {
  const ScheduleTiming& timing = timed.timing;
  // Divide once per figure: the result is the double nearest to the exact rational.
  const double unit = static_cast<double>(timing.unit * timed.scale);
  ScheduleReport report;
  report.set_schema_version(1);
  report.set_schedule(timed.name);
  report.set_ranks(static_cast<int>(timing.ranks.size()));
  report.set_microbatches(timed.microbatches);
  report.set_stages(timed.schedule.stages);
  report.set_lanes(timed.schedule.lanes);
  report.set_makespan(timing.makespan / unit);
  report.set_span(timing.span / unit);
  report.set_ideal(timing.ideal / unit);
  report.set_period(timing.period / (unit * static_cast<double>(timing.period_repetitions)));
  report.set_weight_copies(WeightCopies(timed.schedule));
  // Sums over ranks can exceed 2^63. As doubles they are exact up to 2^53 and accurate to 1e-16 beyond.
  double busy = 0, idle = 0;
  for (const RankTiming& rank : timing.ranks) {
    busy += static_cast<double>(rank.busy);
    idle += static_cast<double>(rank.idle);
    ScheduleRank* row = report.add_per_rank();
    row->set_busy(rank.busy / unit);
    row->set_idle(rank.idle / unit);
    row->set_warm_up(rank.warm_up / unit);
    row->set_dependency(rank.dependency / unit);
    row->set_communication(rank.communication / unit);
    row->set_tail(rank.tail / unit);
    row->set_peak_activations(rank.peak_activations / static_cast<double>(timing.unit));
  }
  report.set_bubble_ratio(busy + idle > 0 ? idle / (busy + idle) : 0);
  report.set_bubble_over_ideal(busy > 0 ? idle / busy : 0);
  return report;
}

std::string ScheduleTable(const ScheduleReport& report) {
  std::string text = absl::StrFormat(
      "%s: %d ranks, %d microbatches\nmakespan %s, span %s, ideal %s, bubble %s of makespan (%s of ideal)\n",
      report.schedule(), report.ranks(), report.microbatches(), JsonNumber(report.makespan()),
      JsonNumber(report.span()), JsonNumber(report.ideal()), Percent(report.bubble_ratio()),
      Percent(report.bubble_over_ideal()));
  if (report.period() != report.makespan()) {
    // The bubble is per step: the part of the period in which a rank does not compute.
    absl::StrAppend(&text, "asynchronous: ",
                    report.period() > 0 ? absl::StrCat("time per step in steady state ", JsonNumber(report.period()),
                                                       ", bubble ", Percent(1 - report.ideal() / report.period()))
                                        : "no steady state found",
                    "\n");
  }
  if (report.stages() != report.ranks() || report.lanes() > 1 || report.weight_copies() != 1) {
    absl::StrAppendFormat(&text, "%d stages, %d lanes, %s copies of the weights\n", report.stages(), report.lanes(),
                          JsonNumber(report.weight_copies()));
  }
  if (report.has_transfer_check()) {
    absl::StrAppend(&text, "transfers checked: they cannot block, with communicators ",
                    report.transfer_check().communicators(), report.transfer_check().grouped() ? ", grouped" : "",
                    "\n");
  }
  absl::StrAppend(
      &text, "\n  rank         busy         idle = warm-up +   waiting +  transfer +      tail  peak activations\n");
  for (int rank = 0; rank < std::min(report.per_rank_size(), kShownRanks); ++rank) {
    const ScheduleRank& row = report.per_rank(rank);
    absl::StrAppendFormat(&text, "  %4d %12s %12s %9s %11s %11s %11s %17s\n", rank, JsonNumber(row.busy()),
                          JsonNumber(row.idle()), JsonNumber(row.warm_up()), JsonNumber(row.dependency()),
                          JsonNumber(row.communication()), JsonNumber(row.tail()), JsonNumber(row.peak_activations()));
  }
  if (report.per_rank_size() > kShownRanks) {
    absl::StrAppend(&text, "  (the first ", kShownRanks, " of ", report.per_rank_size(),
                    " ranks; --format=json has all)\n");
  }
  return text;
}

std::string ScheduleTimeline(const TimedSchedule& timed, int width, bool color) {
  const PipelineSchedule& schedule = timed.schedule;
  const size_t ranks = schedule.order.size();
  std::vector<TimelineRow> rows(std::min<size_t>(ranks, kTimelineRows));
  if (const int64_t slots = SlotsOf(schedule, rows.size()); slots > kDrawnSlots) {
    return absl::StrCat("  no timeline: the first ", rows.size(), " ranks have ", slots,
                        " slots, and weft draws at most ", kDrawnSlots, "; --format=schedule prints the lists\n");
  }
  const int digits = static_cast<int>(absl::StrCat(ranks - 1).size());
  const Chunks chunks(schedule);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank].name = absl::StrFormat("rank %*d", digits, rank);
    for (const Part& part : PartsOf(timed, rank)) {
      if (part.start == part.end) continue;
      rows[rank].bars.push_back({.start = part.start,
                                 .end = part.end,
                                 .letter = LetterOf(part),
                                 .number = part.slot.microbatch,
                                 .suffix = absl::StrCat(part.slot.width > 1 ? "+" : "", chunks.Suffix(part.slot),
                                                        LaneSuffix(schedule, part.slot))});
    }
  }
  const Timeline timeline = DrawTimeline(rows, width, color, {.rows = ranks, .end = timed.timing.makespan});
  const double column = timeline.column / static_cast<double>(timed.timing.unit * timed.scale);
  return absl::StrCat(timeline.text, "  one column = ", JsonNumber(column),
                      timeline.exact ? "" : "; a column shows what runs at its middle", "; ",
                      Legend(timed, chunks.most()), "\n");
}

absl::StatusOr<std::string> ScheduleSvg(const TimedSchedule& timed, const ScheduleReport& report) {
  constexpr double kWidth = 1000, kMargin = 70, kRow = 24, kTop = 34;
  const PipelineSchedule& schedule = timed.schedule;
  const int64_t slots = SlotsOf(schedule, schedule.order.size());
  if (slots > kDrawnSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a drawing of ", slots, " slots is too large; allowed: at most ", kDrawnSlots,
        ", nearest valid: about --microbatches=",
        std::max<int64_t>(1, static_cast<int64_t>(timed.microbatches) * kDrawnSlots / slots), " on the same ranks"));
  }
  const Chunks chunks(schedule);
  const double height = kTop + kRow * static_cast<double>(schedule.order.size()) + 10;
  const double scale = kWidth / static_cast<double>(std::max<int64_t>(timed.timing.makespan, 1));
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"20\" font-size=\"13\">%s, %d ranks, %d microbatches: makespan %s, bubble %s</text>\n",
      kWidth + kMargin + 10, height, XmlEscaped(report.schedule()), report.ranks(), report.microbatches(),
      JsonNumber(report.makespan()), Percent(report.bubble_ratio()));
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    absl::StrAppendFormat(&svg, "<text x=\"10\" y=\"%.0f\">rank %d</text>\n", y + 15, rank);
    absl::StrAppendFormat(&svg, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"#eeeeee\"/>\n",
                          kMargin, y, kWidth, kRow - 4);
    for (const Part& part : PartsOf(timed, rank)) {
      const Slot& slot = part.slot;
      const double x = kMargin + scale * static_cast<double>(part.start);
      const double width = scale * static_cast<double>(part.end - part.start);
      const char* const fill = slot.kind == SlotKind::kForward         ? "#4c78a8"
                               : slot.kind == SlotKind::kBackward      ? "#54a24b"
                               : slot.kind == SlotKind::kBackwardInput ? "#439894"
                                                                       : "#b279a2";
      // Lanes differ in outline (four colors in turn), and a rank's stages in opacity. A dark outline surrounds both
      // sides of a pair.
      static constexpr const char* kStrokes[] = {"white", "#e45756", "#f58518", "#72b7b2"};
      const double opacity = 1 - 0.5 * std::min(chunks.StageOfRank(slot), 3) / 3.0;
      absl::StrAppendFormat(&svg,
                            "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" "
                            "fill-opacity=\"%.2f\" stroke=\"%s\" stroke-width=\"%s\"><title>%s</title></rect>\n",
                            x, y, width, kRow - 4, fill, opacity, part.in_pair ? "black" : kStrokes[slot.lane % 4],
                            slot.lane > 0 || part.in_pair ? "1.5" : "0.5", SlotName(schedule, slot));
      const std::string number = absl::StrCat(slot.microbatch, slot.width > 1 ? "+" : "");
      if (width < 7.0 * static_cast<double>(number.size()) + 3) continue;
      absl::StrAppendFormat(&svg, "<text x=\"%.2f\" y=\"%.0f\" fill=\"white\" text-anchor=\"middle\">%s</text>\n",
                            x + width / 2, y + 14, number);
    }
  }
  return svg + "</svg>\n";
}

std::string ScheduleComparison(const ScheduleComparisonReport& report) {
  size_t names = 14;
  for (const ScheduleReport& row : report.schedules()) names = std::max(names, row.schedule().size());
  for (const SkippedSchedule& row : report.skipped()) names = std::max(names, row.schedule().size());
  const int width = static_cast<int>(names);
  std::string text =
      absl::StrFormat("  %-*s    makespan        span      period     bubble  of ideal  peak activations  weights\n",
                      width, "schedule");
  for (const ScheduleReport& row : report.schedules()) {
    double peak = 0;
    for (const ScheduleRank& rank : row.per_rank()) peak = std::max(peak, rank.peak_activations());
    absl::StrAppendFormat(&text, "  %-*s %11s %11s %11s %8.2f %% %7.2f %% %17s %8s\n", width, row.schedule(),
                          JsonNumber(row.makespan()), JsonNumber(row.span()), JsonNumber(row.period()),
                          100 * row.bubble_ratio(), 100 * row.bubble_over_ideal(), JsonNumber(peak),
                          JsonNumber(row.weight_copies()));
  }
  for (const SkippedSchedule& row : report.skipped()) {
    absl::StrAppendFormat(&text, "  %-*s does not apply: %s\n", width, row.schedule(), row.reason());
  }
  return text;
}

}  // namespace weft
