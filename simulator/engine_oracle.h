// Engine against oracle: the same durations in both, and everything that they say of a program compared.
#ifndef WEFT_SIMULATOR_ENGINE_ORACLE_H_
#define WEFT_SIMULATOR_ENGINE_ORACLE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "simulator/engine.h"
#include "simulator/naive/naive_simulator.h"

namespace weft {

// Small pseudo-random durations, zero among them, so that ties are frequent.
NaiveDurations RandomDurations(uint64_t seed);

// The engine with these durations. `exceeded` is that of ProgramViewOptions.
absl::StatusOr<EngineResult> Simulate(const Program& program, const NaiveDurations& durations,
                                      const EngineOptions& options, bool join_steps, bool exceeded = false);

// Expects the same times of every step, the same finish of every repetition and the same live peaks.
void ExpectAgreement(const Program& program, const NaiveDurations& durations, int repetitions, int devices_per_node,
                     int slots, bool join_steps, int64_t turn = 0, bool exceeded = false);

}  // namespace weft

#endif  // WEFT_SIMULATOR_ENGINE_ORACLE_H_
