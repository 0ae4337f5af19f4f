#include "schedules/pipeline/draw_timeline.h"

#include <cctype>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

std::string Cell(const PipelineSchedule& schedule, const Slot& slot) {
  char letter = "fbiw"[static_cast<int>(slot.kind)];
  const bool upper = schedule.lanes > 1 ? slot.lane > 0 : slot.stage >= static_cast<int>(schedule.order.size());
  if (upper) letter = static_cast<char>(std::toupper(letter));
  return absl::StrCat(std::string(1, letter), slot.microbatch, slot.paired ? "+" : "");
}

}  // namespace

std::string Draw(absl::string_view schedule, const ScheduleParams& params) {
  const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(schedule);
  if (!entry.ok()) return std::string(entry.status().message());
  const absl::StatusOr<PipelineSchedule> built = BuildSchedule(**entry, params);
  if (!built.ok()) return std::string(built.status().message());
  const absl::StatusOr<ScheduleTiming> timing = TimeSchedule(*built, params.microbatches, params.costs);
  if (!timing.ok()) return std::string(timing.status().message());
  std::string drawing;
  for (size_t rank = 0; rank < built->order.size(); ++rank) {
    std::vector<std::string> cells(timing->makespan, "..");
    for (size_t i = 0; i < built->order[rank].size(); ++i) {
      const Slot& slot = built->order[rank][i];
      const bool second = i > 0 && built->order[rank][i - 1].paired;
      for (int64_t t = timing->start[rank][i] + (second ? 1 : 0); t < timing->end[rank][i]; ++t) {
        cells[t] = Cell(*built, slot);
      }
    }
    absl::StrAppend(&drawing, "rank ", rank, ": ", absl::StrJoin(cells, " "), "\n");
  }
  return drawing;
}

std::string Lists(const PipelineSchedule& schedule) {
  std::string lists;
  for (const std::vector<Slot>& order : schedule.order) {
    std::vector<std::string> cells;
    for (const Slot& slot : order) cells.push_back(Cell(schedule, slot));
    absl::StrAppend(&lists, absl::StrJoin(cells, " "), "\n");
  }
  return lists;
}

}  // namespace weft
