#include "verifier/testing/split_program.h"

#include <gtest/gtest.h>

#include <chrono>

#include "verifier/testing/brute_force.h"
#include "verifier/verify.h"

namespace weft {
namespace {

TEST(SplitProgramTest, IsTrainingStep) {
  for (const bool zero : {false, true}) {
    // Some sizes do not divide evenly, so parts are rounded up.
    for (const int64_t data : {2, 3, 4, 7, 50}) {
      for (const int64_t z : {2, 3, 5, 48}) {
        const absl::Status status = VerifyProgram(SplitProgram(zero, data, 2, 0, 16, z));
        EXPECT_TRUE(status.ok()) << "zero " << zero << " data " << data << " z " << z << ": " << status;
      }
    }
  }
}

TEST(SplitProgramTest, RunsWithoutFault) {
  for (const bool zero : {false, true}) {
    for (uint64_t timing = 0; timing < 20; ++timing) {
      EXPECT_EQ(FindFault(SplitProgram(zero), 1 + static_cast<int>(timing % 3), timing), "") << "timing " << timing;
      EXPECT_EQ(FindFault(SplitProgram(zero, 3, 2, 0, 16, 3), 2, timing), "") << "timing " << timing;
    }
  }
}

// Thousands of ranks, and hundreds of steps in a segment and of actions in a list, as for a large model on a large
// machine.
TEST(SplitProgramTest, LargeProgramsAreVerifiedInSeconds) {
  const Program program = SplitProgram(false, 4096, 400, 150);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = VerifyProgram(program);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(status.ok()) << status;
  // The proof takes 1 s on an idle core. With sanitizers and on busy machines it takes longer.
  EXPECT_LT(seconds.count(), 60);
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1000));
}

// Replicas in blocks: one action sums within each block, and another over the ranks at the same place in their blocks.
TEST(SplitProgramTest, GradientsMayBeSummedInTwoSteps) {
  Program program = SplitProgram(false, 4);
  Template& t = *program.mutable_templates(0);
  Action* sync = nullptr;
  for (Action& action : *t.mutable_body()) {
    if (action.name() == "sync tables") sync = &action;
  }
  ASSERT_NE(sync, nullptr);
  const int id = sync->id();
  // Leave one id free for another action, because ids ascend.
  for (Action& action : *t.mutable_body()) {
    if (action.id() > id) action.set_id(action.id() + 1);
    for (Dependency& dep : *action.mutable_deps()) {
      if (dep.action() >= id) dep.set_action(dep.action() + 1);
    }
  }
  Action second = *sync;
  sync->mutable_group()->mutable_axes(0)->set_block(2);
  second.set_id(id + 1);
  second.set_name("sync blocks");
  second.clear_releases();
  second.clear_deps();
  second.add_deps()->set_action(id);
  second.mutable_group()->mutable_axes(0)->set_stride(2);
  *t.add_body() = second;
  for (int i = t.body_size() - 1; i > 0 && t.body(i - 1).id() > t.body(i).id(); --i) {
    t.mutable_body()->SwapElements(i, i - 1);
  }
  const absl::Status status = VerifyProgram(program);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace weft
