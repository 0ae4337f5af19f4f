#include "cli/schedule/schedule_notes.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

namespace weft {
namespace {

constexpr ScheduleNotes kNotes[] = {
#define SCHEDULE_NOTES(name, constraints, bubble, activations, use, drawn) \
  {name, constraints, bubble, activations, use, drawn},
#include "cli/schedule/schedule_notes.def"
#undef SCHEDULE_NOTES
};

}  // namespace

const ScheduleNotes* FindScheduleNotes(absl::string_view name) {
  for (const ScheduleNotes& notes : kNotes) {
    if (notes.name == name) return &notes;
  }
  return nullptr;
}

std::string TakenFlags(const ScheduleEntry& entry) {
  std::vector<absl::string_view> flags;
  for (const auto& [bit, flag] : {std::pair<uint32_t, absl::string_view>{kTakesVirtualStages, "--virtual"},
                                  {kTakesWaves, "--waves"},
                                  {kTakesLanes, "--lanes"},
                                  {kTakesLimit, "--limit"},
                                  {kTakesGroup, "--group"},
                                  {kTakesScaling, "--scaling"}}) {
    if ((entry.takes & bit) != 0) flags.push_back(flag);
  }
  return absl::StrJoin(flags, " ");
}

}  // namespace weft
