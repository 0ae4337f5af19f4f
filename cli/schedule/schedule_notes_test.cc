#include "cli/schedule/schedule_notes.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

// Without a row, the documentation would give only a schedule's source.
TEST(ScheduleNotes, EveryScheduleAndNoOther) {
  for (const ScheduleEntry& entry : Schedules()) {
    const ScheduleNotes* notes = FindScheduleNotes(entry.name);
    ASSERT_NE(notes, nullptr) << entry.name << " needs a row in cli/schedule/schedule_notes.def";
    for (absl::string_view text : {notes->constraints, notes->bubble, notes->activations, notes->use}) {
      EXPECT_FALSE(text.empty()) << entry.name;
    }
  }
  const std::vector<absl::string_view> rows = {
#define SCHEDULE_NOTES(name, constraints, bubble, activations, use, drawn) name,
#include "cli/schedule/schedule_notes.def"
#undef SCHEDULE_NOTES
  };
  EXPECT_EQ(rows.size(), Schedules().size());
  for (size_t i = 0; i + 1 < rows.size(); ++i) EXPECT_LT(rows[i], rows[i + 1]);
}

TEST(ScheduleNotes, TakenFlags) {
  EXPECT_EQ(TakenFlags(**FindSchedule("1f1b")), "");
  EXPECT_EQ(TakenFlags(**FindSchedule("interleaved")), "--virtual --group");
}

}  // namespace
}  // namespace weft
