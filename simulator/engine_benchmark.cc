// Expanded steps per second of the engine on one core, with memory tracking (it cannot be turned off).
//
//   bazel run -c opt //simulator:engine_benchmark
//
// The program is a pipeline of 8 ranks with 64 microbatches and segments of 240 steps, the size of GPT-2 124M's.
// Single: every step is an event. Joined: steps that nothing can come between share one, as `weft simulate` does.
// Slots: 4 of 8 devices compute at a time, which orders every step against the others of its node.
#include <memory>

#include "benchmark/benchmark.h"
#include "simulator/engine.h"
#include "simulator/network/network_model.h"
#include "simulator/test_programs.h"

namespace weft {
namespace {

Program LargeProgram() {
  Program program = GPipeProgram(/*ranks=*/8, /*microbatches=*/64, /*bytes=*/1 << 20);
  for (Segment& segment : *program.mutable_segments()) {
    for (int i = 1; i < 240; ++i) segment.add_steps()->set_name("step");
  }
  return program;
}

void RunBenchmark(benchmark::State& state, bool join_steps, int slots) {
  const Program program = LargeProgram();
  Cluster cluster;
  cluster.set_devices_per_node(8);
  cluster.mutable_intra_node()->set_bytes_per_second(2e11);
  cluster.mutable_intra_node()->set_latency_seconds(3e-6);
  const std::unique_ptr<NetworkModel> network = (*FindNetworkModel("analytic"))->make(program.mesh(), cluster);
  const auto duration = [](int segment, int step, ActionKind kind) -> absl::StatusOr<Time> {
    return Time{20'000'000 + 1'000'000 * (step % 7) * (kind == BACKWARD ? 2 : 1)};
  };
  const auto view = BuildProgramView(program, duration, {.join_steps = join_steps});
  int64_t steps = 0;
  for (auto _ : state) {
    const auto result = RunEngine(*view, *network, {.devices_per_node = 8, .compute_slots_per_node = slots});
    if (!result.ok()) state.SkipWithError(result.status().ToString().c_str());
    steps += result->steps;
    benchmark::DoNotOptimize(result->makespan);
  }
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}

void BM_Single(benchmark::State& state) { RunBenchmark(state, /*join_steps=*/false, /*slots=*/0); }
void BM_Joined(benchmark::State& state) { RunBenchmark(state, /*join_steps=*/true, /*slots=*/0); }
void BM_Slots(benchmark::State& state) { RunBenchmark(state, /*join_steps=*/false, /*slots=*/4); }

// What a simulation of a new program needs once.
void BM_View(benchmark::State& state) {
  const Program program = LargeProgram();
  const auto duration = [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{1}; };
  for (auto _ : state) benchmark::DoNotOptimize(BuildProgramView(program, duration, {}));
}

BENCHMARK(BM_Single)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Joined)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Slots)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_View)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft
