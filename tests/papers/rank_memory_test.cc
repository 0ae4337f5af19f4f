#include "tests/papers/rank_memory.h"

#include <google/protobuf/text_format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Rank 0 has the most weights, rank 1 saves the most. On rank 1, two saved activations share 20 bytes, and a third is
// in host memory.
Program TwoRanks() {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(templates {
           device_arena_bytes: 1000
           buffers { class: PARAMETER offset: 0 bytes: 700 }
           buffers { class: GRADIENT offset: 700 bytes: 100 }
           buffers { class: SAVED_ACTIVATION offset: 800 bytes: 100 }
           body { kind: FORWARD stage: 0 }
           body { kind: BACKWARD stage: 0 }
         }
         templates {
           device_arena_bytes: 900
           buffers { class: GRADIENT offset: 0 bytes: 50 }
           buffers { class: SAVED_ACTIVATION offset: 100 bytes: 120 }
           buffers { class: SAVED_ACTIVATION offset: 200 bytes: 200 }
           buffers { class: SAVED_ACTIVATION place: HOST offset: 0 bytes: 5000 }
           body { kind: FORWARD stage: 1 }
           body { kind: BACKWARD stage: 1 }
         })",
      &program));
  return program;
}

TEST(RankMemory, BytesThatBuffersShareCountOnce) {
  EXPECT_THAT(SavedByStage(TwoRanks()), ElementsAre(Pair(0, 100), Pair(1, 300)));
}

TEST(RankMemory, TheFullestRankIsFoundWithAllThatTheFrameworkKeeps) {
  const Program program = TwoRanks();
  EXPECT_EQ(MostBytes(program, {}), 1000);
  EXPECT_EQ(MostBytes(program, {.gradient_factor = 2}), 1100);
  // Rank 1 needs 900 + 300 bytes, rank 0 only 1000 + 100.
  EXPECT_EQ(MostBytes(program, {.activation_factor = 2}), 1200);
}

TEST(RankMemory, AStageComputedAgainIsHeldWhereItIs) {
  const Program program = TwoRanks();
  EXPECT_EQ(MostBytes(program, {.recomputed = {{0, 100}, {1, 150}}}), 1100);
  EXPECT_EQ(MostBytes(program, {.recomputed = {{0, 100}, {1, 250}}}), 1150);
  // Rank 0 needs 1000 + 50 + 150 bytes, rank 1 needs 900 + 150 + 225.
  EXPECT_EQ(MostBytes(program, {.activation_factor = 1.5, .recomputed = {{0, 100}, {1, 150}}}), 1275);
}

// Chimera's ranks have two stages and recompute one of them at a time.
TEST(RankMemory, HoldsTheLargerOfTwoRecomputedStages) {
  Program program = TwoRanks();
  Action* other = program.mutable_templates(0)->add_body();
  other->set_kind(FORWARD);
  other->set_stage(1);
  EXPECT_EQ(MostBytes(program, {.recomputed = {{0, 100}, {1, 400}}}), 1400);
}

}  // namespace
}  // namespace weft
