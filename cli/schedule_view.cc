#include "cli/schedule_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/timeline.h"
#include "proto/json.h"

namespace weft {
namespace {

std::string Percent(double ratio) { return absl::StrFormat("%.2f %%", 100 * ratio); }

}  // namespace

ScheduleReport MakeScheduleReport(absl::string_view name, int microbatches, const ScheduleTiming& timing,
                                  int64_t scale) {
  // One division per figure: the double nearest to the exact rational.
  const double unit = static_cast<double>(timing.unit * scale);
  ScheduleReport report;
  report.set_schema_version(1);
  report.set_schedule(std::string(name));
  report.set_ranks(static_cast<int>(timing.ranks.size()));
  report.set_microbatches(microbatches);
  report.set_makespan(timing.makespan / unit);
  report.set_span(timing.span / unit);
  report.set_ideal(timing.ideal / unit);
  // Sums over ranks can pass 2^63; as doubles they are exact up to 2^53 and good to 1e-16 beyond.
  double busy = 0, idle = 0;
  for (const RankTiming& rank : timing.ranks) {
    busy += static_cast<double>(rank.busy);
    idle += static_cast<double>(rank.idle);
    ScheduleRank* row = report.add_per_rank();
    row->set_busy(rank.busy / unit);
    row->set_idle(rank.idle / unit);
    row->set_peak_activations(rank.peak_activations / static_cast<double>(timing.unit));
  }
  report.set_bubble_ratio(busy + idle > 0 ? idle / (busy + idle) : 0);
  report.set_bubble_over_ideal(busy > 0 ? idle / busy : 0);
  return report;
}

std::string ScheduleTable(const ScheduleReport& report) {
  std::string text = absl::StrFormat(
      "%s: %d ranks, %d microbatches\nmakespan %s, span %s, ideal %s, bubble %s of makespan (%s of ideal)\n\n"
      "  rank         busy         idle  peak activations\n",
      report.schedule(), report.ranks(), report.microbatches(), JsonNumber(report.makespan()),
      JsonNumber(report.span()), JsonNumber(report.ideal()), Percent(report.bubble_ratio()),
      Percent(report.bubble_over_ideal()));
  for (int rank = 0; rank < report.per_rank_size(); ++rank) {
    const ScheduleRank& row = report.per_rank(rank);
    absl::StrAppendFormat(&text, "  %4d %12s %12s %17s\n", rank, JsonNumber(row.busy()), JsonNumber(row.idle()),
                          JsonNumber(row.peak_activations()));
  }
  return text;
}

std::string ScheduleTimeline(const PipelineSchedule& schedule, const ScheduleTiming& timing, int64_t scale, int width,
                             bool colour) {
  std::vector<TimelineRow> rows(schedule.order.size());
  const int digits = static_cast<int>(absl::StrCat(rows.size() - 1).size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank].name = absl::StrFormat("rank %*d", digits, rank);
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Slot& slot = schedule.order[rank][i];
      rows[rank].bars.push_back({.start = timing.start[rank][i],
                                 .end = timing.end[rank][i],
                                 .letter = slot.kind == SlotKind::kForward ? 'f' : 'B',
                                 .number = slot.microbatch});
    }
  }
  const Timeline timeline = DrawTimeline(rows, width, colour);
  const double column = timeline.column / static_cast<double>(timing.unit * scale);
  return absl::StrCat(timeline.text, "  one column = ", JsonNumber(column),
                      timeline.exact ? "" : ", each drawn by its middle", "\n");
}

std::string ScheduleSvg(const PipelineSchedule& schedule, const ScheduleTiming& timing, const ScheduleReport& report) {
  constexpr double kWidth = 1000, kMargin = 70, kRow = 24, kTop = 34;
  const double height = kTop + kRow * static_cast<double>(schedule.order.size()) + 10;
  const double scale = kWidth / static_cast<double>(std::max<int64_t>(timing.makespan, 1));
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"20\" font-size=\"13\">%s, %d ranks, %d microbatches: makespan %s, bubble %s</text>\n",
      kWidth + kMargin + 10, height, report.schedule(), report.ranks(), report.microbatches(),
      JsonNumber(report.makespan()), Percent(report.bubble_ratio()));
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    absl::StrAppendFormat(&svg, "<text x=\"10\" y=\"%.0f\">rank %d</text>\n", y + 15, rank);
    absl::StrAppendFormat(&svg, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"#eeeeee\"/>\n",
                          kMargin, y, kWidth, kRow - 4);
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Slot& slot = schedule.order[rank][i];
      const double x = kMargin + scale * static_cast<double>(timing.start[rank][i]);
      const double width = scale * static_cast<double>(timing.end[rank][i] - timing.start[rank][i]);
      const std::string number = absl::StrCat(slot.microbatch);
      absl::StrAppendFormat(&svg,
                            "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" "
                            "stroke=\"white\" stroke-width=\"0.5\"/>\n",
                            x, y, width, kRow - 4, slot.kind == SlotKind::kForward ? "#4c78a8" : "#54a24b");
      if (width < 7.0 * static_cast<double>(number.size()) + 3) continue;
      absl::StrAppendFormat(&svg, "<text x=\"%.2f\" y=\"%.0f\" fill=\"white\" text-anchor=\"middle\">%s</text>\n",
                            x + width / 2, y + 14, number);
    }
  }
  return svg + "</svg>\n";
}

std::string ScheduleCsv(const PipelineSchedule& schedule) {
  std::string text;
  for (const std::vector<Slot>& order : schedule.order) {
    absl::StrAppend(&text,
                    absl::StrJoin(order, ",",
                                  [](std::string* out, const Slot& slot) {
                                    absl::StrAppend(out, slot.stage, slot.kind == SlotKind::kForward ? "F" : "B",
                                                    slot.microbatch);
                                  }),
                    "\n");
  }
  return text;
}

}  // namespace weft
