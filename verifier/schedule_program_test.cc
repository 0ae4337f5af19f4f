// Checks that programs of every kind of schedule pass the verifier, and that brute force runs them without fault.
#include "verifier/testing/schedule_program.h"

#include <gtest/gtest.h>

#include "verifier/testing/brute_force.h"
#include "verifier/verify.h"

namespace weft {
namespace {

void Check(const std::string& name, const ScheduleSpec& spec) {
  for (const AccumulationMode accumulation : {IN_ORDER, EXACT}) {
    for (const int data : {1, 2}) {
      ScheduleSpec one = spec;
      one.accumulation = accumulation;
      one.data = data;
      const Program program = ScheduleProgram(one);
      const absl::Status status = VerifyProgram(program);
      EXPECT_TRUE(status.ok()) << name << ": " << status.message();
      for (int repetitions = 1; status.ok() && repetitions < 3; ++repetitions) {
        EXPECT_EQ(FindFault(program, repetitions, repetitions), "") << name;
      }
    }
  }
}

const std::vector<std::vector<int>> kChain = {{0, 1}};
// Placements of two stages per rank: a loop, and a snake that turns inside rank 1.
const std::vector<std::vector<int>> kLoop = {{0, 1, 0, 1}}, kSnake = {{0, 1, 1, 0}};
// Two lanes in opposite directions: two ranks hold each stage.
const std::vector<std::vector<int>> kBothWays = {{0, 1}, {1, 0}};

TEST(ScheduleProgramTest, Chain) {
  ScheduleSpec spec{{"F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"}, kChain, {0, 0}};
  for (const bool tied : {true, false}) {
    for (const TransferStreams streams : {PER_EDGE, PER_DIRECTION}) {
      spec.tied = tied;
      spec.transfer_streams = streams;
      Check("chain", spec);
    }
  }
}

TEST(ScheduleProgramTest, OneRank) {
  Check("one rank", {{"F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 F1.1 F2.1 B2.1 I1.1 B0.1 W1.1"}, {{0, 0, 0}}, {0, 0}});
}

TEST(ScheduleProgramTest, Halves) {
  Check("zero bubble", {{"F0.0 F0.1 I0.0 I0.1 W0.0 W0.1", "F1.0 I1.0 F1.1 I1.1 W1.0 W1.1"}, kChain, {0, 0}});
  Check("halves of one microbatch", {{"F0.0 F0.1 B0.0 I0.1 W0.1", "F1.0 I1.0 W1.0 F1.1 B1.1"}, kChain, {0, 0}});
}

TEST(ScheduleProgramTest, SeveralStagesPerRank) {
  Check("loop",
        {{"F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1", "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1"}, kLoop, {0, 0}});
  Check("snake",
        {{"F0.0 F0.1 F3.0 B3.0 F3.1 B3.1 B0.0 B0.1", "F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1"}, kSnake, {0, 0}});
  Check("snake of halves", {{"F0.0 F0.1 F3.0 I3.0 F3.1 I3.1 I0.0 W3.0 I0.1 W3.1 W0.0 W0.1",
                             "F1.0 F2.0 F1.1 F2.1 I2.0 I1.0 I2.1 I1.1 W2.0 W1.0 W2.1 W1.1"},
                            kSnake,
                            {0, 0}});
}

const ScheduleSpec kReplicas = {{"F0.0 F1.1 B1.1 B0.0", "F0.1 F1.0 B1.0 B0.1"}, kBothWays, {0, 1}};

TEST(ScheduleProgramTest, Replicas) {
  Check("replicas", kReplicas);
  ScheduleSpec untied = kReplicas;
  untied.tied = false;
  Check("replicas, untied", untied);
  // A lane without a microbatch: the ranks that hold its stages are synchronized all the same.
  Check("idle lane", {{"F0.0 B0.0", "F1.0 B1.0"}, kBothWays, {0}});
}

TEST(ScheduleProgramTest, Wide) {
  Check("doubled", {{"F0.0x2 B0.0 B0.1", "F1.0x2 B1.0 B1.1"}, kChain, {0, 0}});
  Check("doubled, halves",
        {{"F0.0x2 F0.2 I0.0 W0.0 I0.1 W0.1 B0.2", "F1.0x2 I1.0 I1.1 W1.0 F1.2 W1.1 B1.2"}, kChain, {0, 0, 0}});
}

TEST(ScheduleProgramTest, Pairs) {
  ScheduleSpec spec{{"F0.0 F0.1 P0.2+0.0 B0.1 B0.2", "F1.0 B1.0 F1.1 P1.2+1.1 B1.2"}, kChain, {0, 0, 0}};
  Check("pairs", spec);
}

TEST(ScheduleProgramTest, Skips) {
  ScheduleSpec spec{{"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1", "F2.0 F2.1 B2.0 B2.1", "F3.0 B3.0 F3.1 B3.1"},
                    {{0, 1, 2, 3}},
                    {0, 0}};
  spec.skips = {{0, 2}, {0, 3}, {1, 3}};
  Check("skips", spec);
  // Within a rank, the value stays in a buffer and needs no transfer.
  ScheduleSpec snake{
      {"F0.0 F0.1 F3.0 B3.0 F3.1 B3.1 B0.0 B0.1", "F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1"}, kSnake, {0, 0}};
  snake.skips = {{0, 3}, {0, 2}};
  Check("skips on a snake", snake);
}

TEST(ScheduleProgramTest, MessageDriven) {
  for (const ComputeOrder order : {ARRIVAL, BACKWARD_FIRST}) {
    ScheduleSpec spec{{"F0.0 F0.1 F0.2 B0.0 B0.1 B0.2", "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2"}, kChain, {0, 0, 0}};
    spec.compute_order = order;
    Check("message driven", spec);
    spec.order[1] = "F1.0 F1.1 F1.2 I1.0 I1.1 W1.0 I1.2 W1.1 W1.2";
    Check("message driven, halves", spec);
  }
}

TEST(ScheduleProgramTest, SharedStreams) {
  ScheduleSpec spec{{"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1"}, kChain, {0, 0}};
  spec.transfer_streams = SHARED;
  Check("shared stream of GPipe", spec);
  // On one stream, the transfers of 1F1B must be in groups.
  spec.order[1] = "F1.0 B1.0 F1.1 B1.1";
  spec.group = true;
  Check("shared stream of 1F1B", spec);
}

}  // namespace
}  // namespace weft
