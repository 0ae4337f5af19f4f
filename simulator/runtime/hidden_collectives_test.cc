#include <string>

#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

// Two layers, two microbatches, ZeRO 1. The backwards make g1 before g0, and the replicas scatter two buckets. The
// optimizer step makes parts, which the replicas gather for the next forward.
Program Training() {
  Program program;
  const absl::Status read = ParseMessage(R"(
    segments { name: "forward"
      operands { name: "w0" bytes: 64 access: READ } operands { name: "w1" bytes: 64 access: READ }
      values { operand: 0 dtype: BF16 shape: 32 } values { operand: 1 dtype: BF16 shape: 32 }
      steps { name: "f0" kernel: MATMUL stream: COMPUTE inputs: 0 }
      steps { name: "f1" kernel: MATMUL stream: COMPUTE inputs: 1 } }
    segments { name: "backward"
      operands { name: "g0" bytes: 128 access: READ_WRITE } operands { name: "g1" bytes: 128 access: READ_WRITE }
      values { operand: 0 dtype: FP32 shape: 32 } values { operand: 1 dtype: FP32 shape: 32 }
      steps { name: "b1" kernel: MATMUL stream: COMPUTE outputs: 1 }
      steps { name: "b0" kernel: MATMUL stream: COMPUTE outputs: 0 } }
    segments { name: "optimizer" steps { name: "adamw" kernel: ADAMW stream: COMPUTE } }
    templates {
      buffers { name: "w0" bytes: 64 dtype: BF16 persistent: true }
      buffers { name: "w1" bytes: 64 dtype: BF16 persistent: true }
      buffers { name: "g0" bytes: 128 dtype: FP32 persistent: true }
      buffers { name: "g1" bytes: 128 dtype: FP32 persistent: true }
      buffers { name: "p0" bytes: 32 dtype: BF16 } buffers { name: "p1" bytes: 32 dtype: BF16 }
      buffers { name: "h0" bytes: 64 dtype: FP32 } buffers { name: "h1" bytes: 64 dtype: FP32 }
      body { id: 1 kind: FORWARD segment: 0 operands: 0 operands: 1 deps { action: 8 distance: 1 }
             deps { action: 9 distance: 1 } }
      body { id: 2 kind: BACKWARD segment: 1 operands: 2 operands: 3 }
      body { id: 3 kind: FORWARD segment: 0 operands: 0 operands: 1 deps { action: 9 distance: 1 } }
      body { id: 4 kind: BACKWARD segment: 1 operands: 2 operands: 3 }
      body { id: 5 kind: REDUCE_SCATTER name: "sum g0" purpose: GRADIENT_SYNC algorithm: "ring"
             group { axes { axis: "data" } } sources: 2 destinations: 6 deps { action: 4 } }
      body { id: 6 kind: REDUCE_SCATTER name: "sum g1" purpose: GRADIENT_SYNC algorithm: "ring"
             group { axes { axis: "data" } } sources: 3 destinations: 7 deps { action: 4 } }
      body { id: 7 kind: OPTIMIZER_STEP segment: 2 operands: 4 operands: 5 deps { action: 5 } deps { action: 6 }
             releases: 6 releases: 7 }
      body { id: 8 kind: ALL_GATHER name: "gather w0" purpose: GATHER_WEIGHTS algorithm: "ring"
             group { axes { axis: "data" } } sources: 4 destinations: 0 deps { action: 7 } releases: 4 }
      body { id: 9 kind: ALL_GATHER name: "gather w1" purpose: GATHER_WEIGHTS algorithm: "ring"
             group { axes { axis: "data" } } sources: 5 destinations: 1 deps { action: 7 } releases: 5 }
    })",
                                         "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return program;
}

std::string Names(const Segment& segment) {
  std::string names;
  for (const Step& step : segment.steps()) names += step.name() + " ";
  return names;
}

TEST(HiddenCollectives, SumsRunBehindTheStepsThatCompleteThem) {
  Program program = Training();
  HideGradientSums(&program);
  const Template& t = program.templates(0);
  ASSERT_EQ(t.body_size(), 7);
  // The backward of the first microbatch is unchanged.
  EXPECT_EQ(t.body(1).segment(), 1);
  EXPECT_EQ(Names(program.segments(1)), "b1 b0 ");
  const Action& last = t.body(3);
  EXPECT_EQ(last.id(), 4);
  const Segment& hosting = program.segments(last.segment());
  EXPECT_EQ(Names(hosting), "b1 sum g1 b0 sum g0 ");
  for (const int step : {1, 3}) {
    EXPECT_TRUE(hosting.steps(step).detached());
    EXPECT_EQ(hosting.steps(step).kernel(), GROUP_REDUCE_SCATTER);
    ASSERT_EQ(hosting.steps(step).deps_size(), 1);
    EXPECT_EQ(hosting.steps(step).deps(0), step - 1);
    EXPECT_EQ(hosting.values(hosting.steps(step).inputs(0)).shape(0), 32);
    EXPECT_EQ(hosting.values(hosting.steps(step).outputs(0)).shape(0), 16);
    EXPECT_EQ(hosting.steps(step).stream(), COLLECTIVE);
    EXPECT_EQ(hosting.steps(step).collective().purpose(), GRADIENT_SYNC);
    EXPECT_EQ(hosting.steps(step).collective().algorithm(), "ring");
    EXPECT_EQ(hosting.steps(step).collective().group().axes(0).axis(), "data");
  }
  // The backward already binds the gradients. The sums become new operands.
  ASSERT_EQ(hosting.operands_size(), 4);
  EXPECT_EQ(hosting.operands(2).name(), "h0");
  EXPECT_EQ(hosting.operands(2).bytes(), 64);
  EXPECT_EQ(hosting.operands(2).access(), WRITE);
  // The optimizer waits for the detached steps.
  const Action& optimizer = t.body(4);
  ASSERT_EQ(optimizer.deps_size(), 1);
  EXPECT_EQ(optimizer.deps(0).action(), 4);
  EXPECT_TRUE(optimizer.deps(0).detached());
}

TEST(HiddenCollectives, GathersStandInFrontOfWhatReadsThem) {
  Program program = Training();
  HideWeightGathers(&program);
  const Template& t = program.templates(0);
  ASSERT_EQ(t.body_size(), 7);
  const Action& first = t.body(0);
  const Segment& hosting = program.segments(first.segment());
  EXPECT_EQ(Names(hosting), "gather w0 gather w1 f0 f1 ");
  ASSERT_EQ(hosting.steps(2).deps_size(), 1);
  EXPECT_EQ(hosting.steps(2).deps(0), 0);
  ASSERT_EQ(hosting.steps(3).deps_size(), 1);
  EXPECT_EQ(hosting.steps(3).deps(0), 1);
  // The first forward waits for the optimizer step of the previous repetition. The second forward waits for the first.
  ASSERT_EQ(first.deps_size(), 1);
  EXPECT_EQ(first.deps(0).action(), 7);
  EXPECT_EQ(first.deps(0).distance(), 1);
  ASSERT_EQ(t.body(2).deps_size(), 1);
  EXPECT_EQ(t.body(2).deps(0).action(), 1);
  EXPECT_EQ(t.body(2).deps(0).distance(), 0);
  // The action that made the parts releases them.
  EXPECT_EQ(t.body(6).releases_size(), 4);
}

TEST(HiddenCollectives, AForwardThatAwaitsAnotherStageGathersBefore) {
  Program program = Training();
  Template* t = program.mutable_templates(0);
  Action recv;
  recv.set_id(0);
  recv.set_kind(RECV);
  t->mutable_body()->Add(std::move(recv));
  t->mutable_body(0)->add_deps()->set_action(0);
  const std::string before = program.SerializeAsString();
  HideWeightGathers(&program);
  EXPECT_EQ(program.SerializeAsString(), before);
}

TEST(HiddenCollectives, SumsOverStagesStay) {
  Program program = Training();
  for (const int i : {4, 5}) {
    program.mutable_templates(0)->mutable_body(i)->mutable_group()->mutable_axes(0)->set_axis("pipe");
  }
  const std::string before = program.SerializeAsString();
  HideGradientSums(&program);
  EXPECT_EQ(program.SerializeAsString(), before);
}

TEST(HiddenCollectives, ASumInTwoStepsIsAChain) {
  Program program = Training();
  Action second;
  second.set_id(10);
  second.set_kind(ALL_REDUCE);
  second.set_name("over blocks");
  second.set_purpose(GRADIENT_SYNC);
  second.set_algorithm("ring");
  second.mutable_group()->add_axes()->set_axis("data");
  second.add_sources(6);
  second.add_destinations(6);
  second.add_deps()->set_action(5);
  Template* t = program.mutable_templates(0);
  google::protobuf::RepeatedPtrField<Action> body;
  for (const Action& action : t->body()) {
    if (action.id() == 7) *body.Add() = second;
    *body.Add() = action;
  }
  t->mutable_body()->Swap(&body);
  HideGradientSums(&program);
  const Segment& hosting = program.segments(program.templates(0).body(3).segment());
  EXPECT_EQ(Names(hosting), "b1 sum g1 b0 sum g0 over blocks ");
  const Step& chained = hosting.steps(4);
  EXPECT_EQ(chained.kernel(), GROUP_ALL_REDUCE);
  EXPECT_EQ(chained.deps(chained.deps_size() - 1), 3);
}

}  // namespace
}  // namespace weft::sim
