// Notes that help to choose a schedule, besides figures that can be measured.
#ifndef WEFT_CLI_SCHEDULE_SCHEDULE_NOTES_H_
#define WEFT_CLI_SCHEDULE_SCHEDULE_NOTES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// A row of schedule_notes.def.
struct ScheduleNotes {
  absl::string_view name;
  absl::string_view constraints;
  absl::string_view bubble;
  absl::string_view activations;
  absl::string_view use;
  // The number of microbatches per rank in the drawing, chosen so that the drawing shows the schedule well.
  int drawn;
};

// Returns null if schedule_notes.def has no row for the schedule.
const ScheduleNotes* FindScheduleNotes(absl::string_view name);

// The optional parameters that a schedule takes, as flags of `weft schedule`: "--virtual --group"; empty if none.
std::string TakenFlags(const ScheduleEntry& entry);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_SCHEDULE_NOTES_H_
