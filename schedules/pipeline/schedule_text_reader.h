// Reads weft's text form of a schedule (docs/schedule_files.md). Internal to schedule_text.
#ifndef WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_READER_H_
#define WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule_text.h"

namespace weft {

// Errors name line and column.
absl::StatusOr<NamedSchedule> ReadTextForm(absl::string_view text);

// Returns a slot in the notation of the text form: "F0.3", "+F0.2-3@1".
std::string SlotWord(const Slot& slot);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SCHEDULE_TEXT_READER_H_
