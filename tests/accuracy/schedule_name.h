// Maps the schedule names of sources to schedules of weft.
#ifndef WEFT_TESTS_ACCURACY_SCHEDULE_NAME_H_
#define WEFT_TESTS_ACCURACY_SCHEDULE_NAME_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

struct ScheduleName {
  // Matches source names that begin with this word. Only letters and digits are compared.
  absl::string_view word;
  // Name in the schedule registry.
  absl::string_view schedule;
  // Stages per rank if a row does not state them; 0 = the schedule has no such parameter.
  int64_t chunks = 0;
};

// Returns the schedule that `name` (in lower case) means, or null. An empty name means 1f1b.
const ScheduleName* FindScheduleName(absl::string_view name);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_SCHEDULE_NAME_H_
