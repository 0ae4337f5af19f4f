#include <string>

#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

TEST(GPipe, ListsOfTheDrawing) {
  const PipelineSchedule schedule = *(*FindSchedule("gpipe"))->build({.ranks = 3, .microbatches = 3});
  for (int rank = 0; rank < 3; ++rank) {
    std::string list;
    for (const Slot& slot : schedule.order[rank])
      list += SlotName(schedule, slot).substr(0, 1) + std::to_string(slot.microbatch);
    EXPECT_EQ(list, "F0F1F2B0B1B2");
  }
}

}  // namespace
}  // namespace weft
