#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/suggest.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

#define PIPELINE_SCHEDULE(name, function, form, takes, source) \
  ScheduleFn function;                                         \
  ClosedFormFn form;
#include "schedules/pipeline/registry.def"
#undef PIPELINE_SCHEDULE

namespace {

constexpr ScheduleEntry kEntries[] = {
#define PIPELINE_SCHEDULE(name, function, form, takes, source) {name, function, form, takes, source},
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

absl::StatusOr<PipelineSchedule> BuildSchedule(const ScheduleEntry& entry, const ScheduleParams& params) {
  struct Optional {
    absl::string_view name;
    uint32_t bit;
    bool set;
  };
  for (const Optional& optional : {Optional{"virtual_stages", kTakesVirtualStages, params.virtual_stages != 0},
                                   {"waves", kTakesWaves, params.waves != 0},
                                   {"lanes", kTakesLanes, params.lanes != 0},
                                   {"limit", kTakesLimit, params.limit != 0},
                                   {"group", kTakesGroup, params.group != 0},
                                   {"scaling", kTakesScaling, params.scaling != Scaling::kConcatenation}}) {
    if (!optional.set || (entry.takes & optional.bit) != 0) continue;
    std::vector<std::string> takers;
    for (const ScheduleEntry& other : kEntries) {
      if ((other.takes & optional.bit) != 0) takers.emplace_back(other.name);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", Quoted(entry.name), " does not take ", optional.name,
                     takers.empty() ? "; none does" : absl::StrCat("; those that do: ", absl::StrJoin(takers, ", "))));
  }
  return entry.build(params);
}

}  // namespace weft
