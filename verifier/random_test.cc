// Checks that random programs pass the verifier, and that brute force runs them without fault. After a random change,
// the verifier must refuse a program, or brute force must still run it without fault.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "proto/util/mesh.h"
#include "tests/random_program.h"
#include "verifier/testing/brute_force.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"
#include "verifier/verify.h"

namespace weft {
namespace {

VerifyOptions Safety() {
  VerifyOptions options;
  options.completeness = false;
  return options;
}

RandomProgramOptions Options(uint64_t seed) {
  RandomProgramOptions options;
  options.data = seed % 3 == 0;
  options.events = 1 + static_cast<int>(seed % 40);
  options.schedules = seed % 4 != 0;
  options.collectives = seed % 5 < 2;
  options.max_ranks = 8;
  return options;
}

TEST(RandomProgramTest, IsValid) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const absl::Status status = VerifyProgram(RandomProgram(seed, Options(seed)), Safety());
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
  }
}

// If templates do not pin an axis, 2^17 ranks along it cost no more than 2.
TEST(RandomProgramTest, UnpinnedAxesAreNotEnumerated) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Program program = RandomProgram(seed);
    bool pinned = false;
    for (const Template& t : program.templates()) {
      for (const Coordinate& pin : t.pins()) pinned = pinned || pin.axis() == "data";
    }
    if (pinned) continue;
    for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
      if (axis.name() == "data") axis.set_size(1 << 17);
    }
    const absl::Status status = VerifyProgram(program, Safety());
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    ++checked;
  }
  EXPECT_GT(checked, 20);
}

TEST(RandomProgramTest, IsTheSameForTheSameSeed) {
  EXPECT_EQ(RandomProgram(7).SerializeAsString(), RandomProgram(7).SerializeAsString());
  EXPECT_NE(RandomProgram(7).SerializeAsString(), RandomProgram(8).SerializeAsString());
}

TEST(RandomProgramTest, RunsWithoutFault) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Program program = RandomProgram(seed, Options(seed));
    for (int repetitions : {1, 3}) {
      EXPECT_EQ(FindFault(program, repetitions, seed), "") << "seed " << seed;
    }
  }
}

// Each feature of schedules must occur in enough of the programs.
TEST(RandomProgramTest, CoversSchedules) {
  std::map<std::string, int> count;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Program program = RandomProgram(seed, Options(seed));
    std::set<std::string> has;
    has.insert(ComputeOrder_Name(program.compute_order()));
    has.insert(TransferStreams_Name(program.transfer_streams()));
    for (const Template& t : program.templates()) {
      for (int i = 0; i < t.body_size(); ++i) {
        const Action& action = t.body(i);
        has.insert(ActionKind_Name(action.kind()));
        if (action.skip() > 0) has.insert("skip");
        if (action.width() > 1) has.insert(action.kind() == FORWARD ? "wide forward" : "wide transfer");
        if (i > 0 && action.transfer_group() > 0 && t.body(i - 1).transfer_group() == action.transfer_group()) {
          has.insert("group");
        }
      }
    }
    for (const std::string& feature : has) ++count[feature];
  }
  for (const char* feature :
       {"ARRIVAL", "BACKWARD_FIRST", "PER_DIRECTION", "SHARED", "BACKWARD_INPUT", "BACKWARD_WEIGHT", "FORWARD_BACKWARD",
        "GRAD_NORM", "skip", "wide forward", "wide transfer", "group"}) {
    EXPECT_GE(count[feature], 20) << feature;
  }
}

TEST(RandomProgramTest, CoversCollectives) {
  std::map<std::string, int> count;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomProgramOptions options = Options(seed);
    options.collectives = true;
    options.max_ranks = 16;
    const Program program = RandomProgram(seed, options);
    EXPECT_LE(MeshRanks(program.mesh()), 16);
    std::set<std::string> has;
    for (const MeshAxis& axis : program.mesh().axes()) {
      if (axis.size() > 1) has.insert(axis.name());
    }
    const auto group = [&](const Group& g) {
      for (const AxisSubset& subset : g.axes()) {
        const int64_t size = AxisSize(program.mesh(), subset.axis());
        if (subset.block() > 1 && subset.block() < size) has.insert("block");
        if (subset.stride() > 1 && subset.stride() < size) has.insert("stride");
      }
      if (GroupSize(program.mesh(), g) > 1) has.insert("group");
    };
    for (const Segment& segment : program.segments()) {
      std::set<std::string> communicators;
      for (const Step& step : segment.steps()) {
        if (!step.has_collective()) continue;
        has.insert(Kernel_Name(step.kernel()));
        group(step.collective().group());
        communicators.insert(step.collective().SerializeAsString());
        if (step.detached()) has.insert("detached");
        if (step.accumulate()) has.insert("accumulate");
      }
      if (communicators.size() > 1) has.insert("communicators");
    }
    for (const Template& t : program.templates()) {
      for (const Action& action : t.body()) {
        has.insert(ActionKind_Name(action.kind()));
        for (const Dependency& dep : action.deps()) {
          if (dep.detached())
            has.insert(dep.distance() > 0 ? "detached wait of an earlier repetition" : "detached wait");
        }
      }
    }
    for (const std::string& feature : has) ++count[feature];
  }
  for (const char* feature :
       {"x", "y", "z", "data", "pipe", "block", "stride", "group", "GROUP_ALL_REDUCE", "GROUP_ALL_GATHER",
        "GROUP_REDUCE_SCATTER", "detached", "accumulate", "communicators", "ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER",
        "detached wait", "detached wait of an earlier repetition"}) {
    EXPECT_GE(count[feature], 20) << feature;
  }
}

// A program may deadlock if its streams and groups are not those that it was made for. The verifier must report a
// deadlock exactly if there is one.
TEST(RandomProgramTest, DeadlockIsFoundExactly) {
  int stuck = 0, sound = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomProgramOptions options = Options(seed);
    options.schedules = true;
    Program program = RandomProgram(seed, options);
    program.set_transfer_streams(static_cast<TransferStreams>(seed % 3));
    // Joins consecutive transfers that were separate into groups, or splits groups.
    for (Template& t : *program.mutable_templates()) {
      for (int i = 0; i < t.body_size(); ++i) {
        Action& action = *t.mutable_body(i);
        if (action.kind() == SEND || action.kind() == RECV) {
          action.set_transfer_group(seed % 4 == 0 ? 0 : action.transfer_group() / 2 + static_cast<int>(seed % 5));
        }
      }
    }
    VerifyOptions all = Safety();
    all.max_findings = 1000;
    bool deadlock = false, other = false;
    for (const Finding& finding : FindViolations(program, all)) {
      (finding.rule == "P13.deadlock" ? deadlock : other) = true;
    }
    if (other) continue;
    EXPECT_EQ(FindFault(program, 2, seed), deadlock ? "deadlock" : "") << "seed " << seed;
    ++(deadlock ? stuck : sound);
  }
  EXPECT_GT(stuck, 50);
  EXPECT_GT(sound, 50);
}

// Changes the program at random. The verifier must not accept a program for which brute force finds a fault.
void MutateAndCheck(const Program& original, uint64_t seed, const VerifyOptions& options, int* accepted, int* refused) {
  Program program = original;
  for (uint64_t i = 0; i <= seed % 2; ++i) Mutate(&program, seed * 31 + i);
  if (!VerifyProgram(program, options).ok()) {
    ++*refused;
    return;
  }
  ++*accepted;
  if (MeshRanks(program.mesh()) > 32) return;  // Too large to expand.
  for (uint64_t timing = 0; timing < 3; ++timing) {
    ASSERT_EQ(FindFault(program, 1 + static_cast<int>(timing), seed + timing), "") << "seed " << seed;
  }
}

TEST(MutationTest, RandomProgramsAreRefusedOrSound) {
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomProgramOptions options = Options(seed);
    options.events = 1 + static_cast<int>(seed % 12);
    MutateAndCheck(RandomProgram(seed / 5, options), seed, Safety(), &accepted, &refused);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 500);
}

TEST(MutationTest, TrainingProgramsAreRefusedOrSound) {
  int accepted = 0, refused = 0;
  Program program = TinyProgram();
  *program.mutable_evaluation() = TinyEvaluation();
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    MutateAndCheck(program, seed, {}, &accepted, &refused);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 1000);
}

TEST(MutationTest, SplitProgramsAreRefusedOrSound) {
  int accepted = 0, refused = 0;
  for (const bool zero : {false, true}) {
    const Program program = SplitProgram(zero);
    for (uint64_t seed = 0; seed < 600; ++seed) {
      MutateAndCheck(program, seed + (zero ? 5000 : 0), {}, &accepted, &refused);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 500);
}

TEST(MutationTest, SchedulesAreRefusedOrSound) {
  const std::vector<std::vector<int>> chain = {{0, 1}}, both_ways = {{0, 1}, {1, 0}};
  std::vector<ScheduleSpec> specs = {
      {{"F0.0 F0.1 I0.0 I0.1 W0.0 W0.1", "F1.0 I1.0 F1.1 I1.1 W1.0 W1.1"}, chain, {0, 0}},
      {{"F0.0 F1.1 B1.1 B0.0", "F0.1 F1.0 B1.0 B0.1"}, both_ways, {0, 1}},
      {{"F0.0x2 B0.0 B0.1", "F1.0x2 B1.0 B1.1"}, chain, {0, 0}},
      {{"F0.0 F0.1 P0.2+0.0 B0.1 B0.2", "F1.0 B1.0 F1.1 P1.2+1.1 B1.2"}, chain, {0, 0, 0}},
      {{"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1", "F2.0 B2.0 F2.1 B2.1"}, {{0, 1, 2}}, {0, 0}},
      {{"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1"}, chain, {0, 0}},
      {{"F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"}, chain, {0, 0}},
  };
  specs[1].data = 2;
  specs[4].skips = {{0, 2}};
  specs[5].compute_order = ARRIVAL;
  specs[6].transfer_streams = SHARED;
  specs[6].group = true;
  int accepted = 0, refused = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Program program = ScheduleProgram(specs[i]);
    for (uint64_t seed = 0; seed < 300; ++seed) {
      MutateAndCheck(program, seed + 1000 * i, {}, &accepted, &refused);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 1000);
}

// If a wait is removed from a valid program, either brute force finds no fault or the verifier refuses the program.
// Brute force must find faults often enough to make the comparison meaningful.
TEST(MutationTest, RemovedWaits) {
  int harmful = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Program program = RandomProgram(seed, Options(seed));
    Template& t = *program.mutable_templates(static_cast<int>(seed % program.templates_size()));
    if (t.body_size() == 0) continue;
    Action& action = *t.mutable_body(static_cast<int>(seed * 7 % t.body_size()));
    if (action.deps_size() == 0) continue;
    action.mutable_deps()->RemoveLast();
    const bool ok = VerifyProgram(program, Safety()).ok();
    bool fault = false;
    for (uint64_t timing = 0; timing < 4; ++timing) fault = fault || !FindFault(program, 2, seed + timing).empty();
    EXPECT_FALSE(ok && fault) << "seed " << seed;
    harmful += fault;
  }
  EXPECT_GT(harmful, 10);
}

}  // namespace
}  // namespace weft
