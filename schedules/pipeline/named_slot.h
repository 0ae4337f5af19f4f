// Back from what the checks say to the lists that they said it of, for schedules that were read from a file.
#ifndef WEFT_SCHEDULES_PIPELINE_NAMED_SLOT_H_
#define WEFT_SCHEDULES_PIPELINE_NAMED_SLOT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct NamedSlot {
  // As the message names it; of a doubled forward the first.
  Slot slot;
  int rank = -1;
  // In the list of `rank`, or -1 if the slot is named as one that is missing there.
  int64_t index = -1;
};

// The first slot that a message of CheckSchedule names (SlotName) and where it is in the lists; of one that is there
// twice the second. nullopt if it names none, or none that is in the lists or has a rank.
std::optional<NamedSlot> FirstNamedSlot(absl::string_view message, const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_NAMED_SLOT_H_
