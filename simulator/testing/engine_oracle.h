// Runs engine and oracle with the same durations and compares all their results for a program.
#ifndef WEFT_SIMULATOR_TESTING_ENGINE_ORACLE_H_
#define WEFT_SIMULATOR_TESTING_ENGINE_ORACLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/jitter.h"
#include "simulator/naive/naive_simulator.h"

namespace weft::sim {

struct DurationOptions {
  // If true, collectives make the steps beside them cost more.
  bool load = false;
  // If true, transfers and collectives are flows over shared links.
  bool flows = false;
  // Class of each rank's device; steps cost the same on devices of one class. Empty = one class.
  std::vector<int32_t> device_of_rank = {};
};

// Returns small pseudo-random durations, zero among them, so that ties are frequent.
NaiveDurations RandomDurations(uint64_t seed, const DurationOptions& options = {});

// Runs the engine with these durations. `exceeded` is ProgramViewOptions::exceeded, `device_of_rank` is
// DurationOptions::device_of_rank.
absl::StatusOr<EngineResult> Simulate(const Program& program, const NaiveDurations& durations,
                                      const EngineOptions& options, bool join_steps, bool exceeded = false,
                                      const std::vector<int32_t>& device_of_rank = {});

struct Agreement {
  int repetitions = 1;
  int devices_per_node = 1;
  int slots = 0;
  int64_t turn = 0;
  bool join_steps = true;
  bool exceeded = false;
  std::vector<int32_t> device_of_rank = {};
  Jitter jitter = {};
};

// Expects that engine and oracle have the same times for every step, the same finish of every repetition and the same
// live peaks.
void ExpectAgreement(const Program& program, const NaiveDurations& durations, const Agreement& how);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_TESTING_ENGINE_ORACLE_H_
