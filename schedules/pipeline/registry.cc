#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/suggest.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

#define PIPELINE_SCHEDULE(name, function, source) ScheduleFn function;
#include "schedules/pipeline/registry.def"
#undef PIPELINE_SCHEDULE

namespace {

constexpr ScheduleEntry kEntries[] = {
#define PIPELINE_SCHEDULE(name, function, source) {name, function, source},
#include "schedules/pipeline/registry.def"
#undef PIPELINE_SCHEDULE
};

}  // namespace

absl::Span<const ScheduleEntry> Schedules() { return kEntries; }

absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name) {
  std::vector<std::string> known;
  for (const ScheduleEntry& entry : kEntries) {
    if (entry.name == name) return &entry;
    known.emplace_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat("unknown schedule ", Quoted(name), NameHelp(name, known)));
}

}  // namespace weft
