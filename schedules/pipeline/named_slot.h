// Finds the slot that a message of the checks names, for schedules that were read from a file.
#ifndef WEFT_SCHEDULES_PIPELINE_NAMED_SLOT_H_
#define WEFT_SCHEDULES_PIPELINE_NAMED_SLOT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

struct NamedSlot {
  // The slot as the message names it. For a doubled forward, its first microbatch.
  Slot slot;
  int rank = -1;
  // Index in the list of `rank`, or -1 if the message says that the slot is missing there.
  int64_t index = -1;
};

// Finds the first slot that a message of CheckSchedule names (SlotName) and its place in the lists. If the slot is
// there twice, returns the second. Returns nullopt if the message names no slot, or one that is neither in the lists
// nor expected on a rank.
std::optional<NamedSlot> FirstNamedSlot(absl::string_view message, const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_NAMED_SLOT_H_
