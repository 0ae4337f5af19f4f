#include "cli/schedule_view.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/json.h"

namespace weft {
namespace {

// Lines beyond this say nothing that the first do not.
constexpr int kTimelineRanks = 64;

constexpr absl::string_view kForwardColour = "\033[34m";
constexpr absl::string_view kBackwardColour = "\033[32m";
constexpr absl::string_view kIdleColour = "\033[2m";
constexpr absl::string_view kNoColour = "\033[0m";

// A run of equal columns: what the rank does, -1 for nothing.
class Line {
 public:
  Line(const PipelineSchedule& schedule, int rank, bool colour) : slots_(schedule.order[rank]), colour_(colour) {}

  void Add(int slot, absl::string_view text) {
    if (colour_) {
      const absl::string_view wanted = slot < 0                                  ? kIdleColour
                                       : slots_[slot].kind == SlotKind::kForward ? kForwardColour
                                                                                 : kBackwardColour;
      if (wanted != active_) absl::StrAppend(&text_, active_.empty() ? "" : kNoColour, wanted);
      active_ = wanted;
    }
    absl::StrAppend(&text_, text);
  }
  std::string Take() { return active_.empty() ? text_ : absl::StrCat(text_, kNoColour); }

 private:
  const std::vector<Slot>& slots_;
  bool colour_;
  absl::string_view active_;
  std::string text_;
};

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
  const int ranks = static_cast<int>(schedule.order.size());
  const int shown = std::min(ranks, kTimelineRanks);
  // The largest step of which all starts and ends are multiples.
  int64_t step = 0;
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      step = std::gcd(step, std::gcd(timing.start[rank][i], timing.end[rank][i]));
      most = std::max(most, schedule.order[rank][i].microbatch);
    }
  }
  step = std::max<int64_t>(step, 1);
  const int digits = static_cast<int>(absl::StrCat(most).size());
  const int margin = 7 + static_cast<int>(absl::StrCat(shown - 1).size());
  const int64_t columns = std::max(width - margin, 20);
  const bool exact = timing.makespan / step <= columns / (digits + 2);
  if (!exact) step = (timing.makespan + columns - 1) / columns;

  std::string text;
  for (int rank = 0; rank < shown; ++rank) {
    Line line(schedule, rank, colour);
    size_t at = 0;
    for (int64_t begin = 0; begin < timing.makespan; begin += step) {
      const int64_t middle = begin + step / 2;
      while (at < schedule.order[rank].size() && timing.end[rank][at] <= middle) ++at;
      const bool busy = at < schedule.order[rank].size() && timing.start[rank][at] <= middle;
      const bool forward = busy && schedule.order[rank][at].kind == SlotKind::kForward;
      std::string cell = !busy ? "." : forward ? "f" : "B";
      if (exact) {
        cell = busy ? absl::StrCat(cell, schedule.order[rank][at].microbatch) : "..";
        cell.resize(digits + 2, ' ');
      }
      line.Add(busy ? static_cast<int>(at) : -1, cell);
    }
    std::string drawn = line.Take();
    if (!colour) drawn.erase(drawn.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, absl::StrFormat("  rank %*d ", margin - 8, rank), drawn, "\n");
  }
  if (shown < ranks) absl::StrAppend(&text, "  (the first ", shown, " of ", ranks, " ranks)\n");
  const double column = step / static_cast<double>(timing.unit * scale);
  absl::StrAppend(&text, "  one column = ", JsonNumber(column), exact ? "" : ", each drawn by its middle", "\n");
  return text;
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
