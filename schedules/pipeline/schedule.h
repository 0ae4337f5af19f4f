// A pipeline schedule: sizes and times in, one ordered list of slots per rank out. No model, no devices.
#ifndef WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_
#define WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

enum class SlotKind { kForward, kBackward };

// One compute action of the pipeline: (kind, lane, stage, microbatch).
struct Slot {
  SlotKind kind = SlotKind::kForward;
  int lane = 0;
  int stage = 0;
  int microbatch = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};

struct ScheduleParams {
  int ranks = 1;         // P >= 1
  int microbatches = 1;  // N >= 1, of one step
  // Cost of one microbatch on one rank, in any unit; schedules that order by time read them.
  int64_t forward = 1;
  int64_t backward = 2;
};

struct PipelineSchedule {
  int stages = 0;
  int lanes = 1;
  // placement[lane][stage] = pipe rank.
  std::vector<std::vector<int>> placement;
  // order[rank] = slots in execution order.
  std::vector<std::vector<Slot>> order;
};

// Builds the lists. InvalidArgument, naming the parameter and the nearest valid value, if params are out of range.
using ScheduleFn = absl::StatusOr<PipelineSchedule>(const ScheduleParams& params);

struct ScheduleEntry {
  absl::string_view name;
  ScheduleFn* build;
  absl::string_view source;
};

// All known schedules, sorted by name.
absl::Span<const ScheduleEntry> Schedules();

// By name; NotFound lists the known names and the nearest.
absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_
