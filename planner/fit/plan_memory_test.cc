#include "planner/fit/plan_memory.h"

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

// A rank that holds 100 + 50 bytes all the time, up to 40 in its backward and 70 at the end of the step.
const char* const kTemplate = R"(
  buffers { bytes: 100 persistent: true class: PARAMETER }
  buffers { bytes: 50 persistent: true class: GRADIENT }
  buffers { bytes: 1000 persistent: true class: OPTIMIZER place: HOST }
  buffers { bytes: 30 class: SAVED_ACTIVATION }
  buffers { bytes: 10 class: WORKSPACE }
  buffers { bytes: 70 class: COMMUNICATION }
  body { kind: FORWARD operands: [ 0, 3 ] }
  body { kind: BACKWARD operands: [ 0, 1, 3, 4 ] releases: [ 3, 4 ] }
  body { kind: ALL_GATHER sources: 5 destinations: 5 releases: 5 })";

TEST(PlanMemory, FindsTheFullestMomentsOfMicrobatchesAndOfTheEnd) {
  const Program program;
  auto t = Parse<Template>(kTemplate);
  EXPECT_EQ(FullestMoment(t), 220);
  t.set_device_arena_bytes(256);
  const RankFigures figures = FiguresOf(program, t, nullptr);
  EXPECT_EQ(figures.microbatches[PARAMETER], 100);
  EXPECT_EQ(figures.microbatches[SAVED_ACTIVATION], 30);
  EXPECT_EQ(figures.microbatches[WORKSPACE], 10);
  EXPECT_EQ(figures.end[COMMUNICATION], 70);
  EXPECT_EQ(figures.end[SAVED_ACTIVATION], 0);
  EXPECT_EQ(figures.end[OPTIMIZER], 0);
  const RankMemory memory = RankMemoryOf(figures, nullptr);
  EXPECT_EQ(memory.classes[COMMUNICATION], 70);
  EXPECT_EQ(memory.planned_bytes, 256);
  EXPECT_EQ(memory.device_bytes, 256);
}

TEST(PlanMemory, AnotherMomentMayBeTheFullestWithMoreLayers) {
  RankFigures small, large;
  small.end[COMMUNICATION] = 90, large.end[COMMUNICATION] = 100;
  small.microbatches[SAVED_ACTIVATION] = 40, large.microbatches[SAVED_ACTIVATION] = 70;
  small.arena = 90, large.arena = 100;
  // 100 + 3 · 10 at the end, 70 + 3 · 30 before.
  const RankMemory memory = RankMemoryOf(Extrapolate(small, large, 3), nullptr);
  EXPECT_EQ(memory.planned_bytes, 160);
  EXPECT_EQ(memory.classes[SAVED_ACTIVATION], 160);
  EXPECT_EQ(memory.classes[COMMUNICATION], 0);
}

TEST(PlanMemory, AFrameworkTakesMoreThanThePlannedBytes) {
  const auto program = Parse<Program>(R"(
    mesh { axes { name: "pipe" size: 2 } }
    templates { pins { axis: "pipe" index: 1 } device_arena_bytes: 1000
                buffers { bytes: 100 persistent: true class: PARAMETER } }
    templates { pins { axis: "pipe" index: 0 } device_arena_bytes: 500
                buffers { bytes: 7 persistent: true class: PARAMETER } })");
  const auto runtime = Parse<Runtime>("memory { reserved_bytes: 9 fragmentation: 0.25 block_bytes: 512 }");
  const PlanMemory memory = MemoryOfProgram(program, &runtime);
  ASSERT_EQ(memory.ranks.size(), 2);
  EXPECT_EQ(memory.ranks[0].device_bytes, 500 + 125 + 505 + 9);
  EXPECT_EQ(memory.ranks[1].device_bytes, 1000 + 250 + 412 + 9);
  EXPECT_EQ(memory.ranks[1].planned_bytes, 1000);
  EXPECT_EQ(memory.MostDeviceBytes(), memory.ranks[1].device_bytes);
}

}  // namespace
}  // namespace weft::planner
