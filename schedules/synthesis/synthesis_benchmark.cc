// Measures synthesis.
//
//   bazel run -c opt //schedules/synthesis:synthesis_benchmark
//
// The last stage is twice as expensive as the others, whose layers differ by up to a fifth; the cap is what 1F1B holds.
#include <cstdint>

#include "benchmark/benchmark.h"
#include "schedules/synthesis/synthesize.h"

namespace weft {
namespace {

void BM_Synthesize(benchmark::State& state) {
  SynthesisProblem problem;
  problem.ranks = static_cast<int>(state.range(0));
  problem.microbatches = static_cast<int>(state.range(1));
  const int stages = problem.ranks * static_cast<int>(state.range(2));
  for (int stage = 0; stage < stages; ++stage) {
    const int64_t time = (1000 + stage * 37 % 200) * (stage + 1 == stages ? 2 : 1);
    problem.costs.push_back({time, 2 * time, time * 11 / 10, time * 9 / 10});
  }
  problem.p2p = 50;
  problem.activations.assign(stages, 1);
  problem.memory_cap = stages;
  problem.placements = KnownPlacements(problem.ranks, stages, /*replicas=*/false);
  double gap = 0;
  for (auto _ : state) {
    const absl::StatusOr<Synthesis> found = Synthesize(problem);
    if (!found.ok()) {
      state.SkipWithError(found.status().ToString().c_str());
      break;
    }
    gap = found->gap();
  }
  state.counters["gap_percent"] = 100 * gap;
}

BENCHMARK(BM_Synthesize)
    ->ArgNames({"P", "N", "stages_per_rank"})
    ->Args({8, 32, 1})
    ->Args({16, 64, 1})
    ->Args({8, 32, 2})
    ->Args({16, 64, 2})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft
