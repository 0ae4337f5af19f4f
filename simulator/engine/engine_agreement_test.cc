// Compares engine and oracle on random programs and random times, with all features of a machine: collectives that slow
// down the steps beside them (P3), devices of several classes (P12), transfers and collectives that share links (P12),
// compute slots (P3). Every combination of these occurs.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/testing/engine_oracle.h"
#include "simulator/testing/test_programs.h"
#include "tests/random_program.h"

// The exhaustive test variant uses more seeds.
#ifndef WEFT_SEEDS
#define WEFT_SEEDS 300
#endif

namespace weft::sim {
namespace {

constexpr uint64_t kSeeds = WEFT_SEEDS;

// Returns a random device class for each rank, from 0 to `classes` - 1.
std::vector<int32_t> Devices(const Program& program, uint64_t seed, int32_t classes) {
  std::vector<int32_t> devices;
  for (int64_t rank = 0; rank < MeshRanks(program.mesh()); ++rank) {
    devices.push_back(static_cast<int32_t>((seed + static_cast<uint64_t>(rank) * 0x9E3779B97F4A7C15u) >> 33) % classes);
  }
  return devices;
}

struct Machine {
  bool load = false;
  bool flows = false;
  bool devices = false;
  bool jitter = false;
};

Machine MachineOf(uint64_t seed) { return {(seed & 1) > 0, (seed & 2) > 0, (seed & 4) > 0, (seed & 8) > 0}; }

void Compare(const Program& program, uint64_t seed) {
  const Machine machine = MachineOf(seed);
  const std::vector<int32_t> devices =
      machine.devices ? Devices(program, seed, 2 + static_cast<int32_t>(seed % 2)) : std::vector<int32_t>();
  const NaiveDurations durations =
      RandomDurations(seed, {.load = machine.load, .flows = machine.flows, .device_of_rank = devices});
  Agreement how = {.repetitions = 1 + static_cast<int>(seed % 3),
                   .device_of_rank = devices,
                   .jitter = machine.jitter ? Jitter(Draw(seed), 0.3) : Jitter()};
  ExpectAgreement(program, durations, how);
  how.join_steps = false;
  ExpectAgreement(program, durations, how);
  how.devices_per_node = 4;
  how.slots = 1 + static_cast<int>(seed % 2);
  how.turn = static_cast<int64_t>(seed % 12);
  ExpectAgreement(program, durations, how);
}

TEST(EngineAgreement, RandomEnginePrograms) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Compare(RandomEngineProgram(seed), seed);
    if (HasFailure()) return;
  }
}

TEST(EngineAgreement, ProgramsOfSchedules) {
  const RandomProgramOptions options = {.max_pipe = 4, .max_data = 2, .events = 18, .schedules = true};
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Compare(RandomProgram(seed, options), seed);
    if (HasFailure()) return;
  }
}

TEST(EngineAgreement, ProgramsWithCollectives) {
  RandomProgramOptions options = {.max_pipe = 2, .max_data = 2, .events = 12, .collectives = true, .max_ranks = 8};
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    options.schedules = seed % 16 < 8;
    Compare(RandomProgram(seed, options), seed);
    if (HasFailure()) return;
  }
}

// The features under test change times: with load, flows, jitter or device classes, many programs take another time.
TEST(EngineAgreement, TheMachineMatters) {
  int loads = 0, flows = 0, devices = 0, jitters = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = RandomEngineProgram(seed);
    const auto makespan = [&](const DurationOptions& options, const Jitter& jitter = {}) {
      const auto result = Simulate(program, RandomDurations(seed, options), {.jitter = jitter}, /*join_steps=*/true,
                                   false, options.device_of_rank);
      EXPECT_TRUE(result.ok()) << result.status();
      return result.ok() ? result->makespan.ps : 0;
    };
    const int64_t plain = makespan({});
    loads += makespan({.load = true}) != plain;
    flows += makespan({.flows = true}) != plain;
    jitters += makespan({}, Jitter(Draw(seed), 0.3)) != plain;
    devices += makespan({.device_of_rank = Devices(program, seed, 3)}) != plain;
  }
  EXPECT_GT(loads, 50);
  EXPECT_GT(flows, 50);
  EXPECT_GT(devices, 50);
  EXPECT_GT(jitters, 50);
}

}  // namespace
}  // namespace weft::sim
