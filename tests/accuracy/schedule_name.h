// What sources call the schedules of weft.
#ifndef WEFT_TESTS_ACCURACY_SCHEDULE_NAME_H_
#define WEFT_TESTS_ACCURACY_SCHEDULE_NAME_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

struct ScheduleName {
  // A source's name begins with this, letters and digits alone.
  absl::string_view word;
  // Of the registry.
  absl::string_view schedule;
  // Stages per rank where a row does not state them; 0: the schedule takes no such figure.
  int64_t chunks = 0;
};

// Null if none is meant. `name` is in lower case; an empty one is 1f1b.
const ScheduleName* FindScheduleName(absl::string_view name);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_SCHEDULE_NAME_H_
