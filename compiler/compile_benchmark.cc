// Measures how long planner::CompilePlan() takes, including the evaluation program and verification: GPT-2 124M at pipe
// 8 with 64 microbatches, and Llama-3.1 405B for 16,384 devices.
//
//   bazel run -c opt //compiler:compile_benchmark
#include <string>

#include "benchmark/benchmark.h"
#include "compiler/models/load_model.h"
#include "google/protobuf/text_format.h"
#include "planner/compile.h"

namespace weft {
namespace {

template <typename T>
T Parse(const std::string& text) {
  T message;
  google::protobuf::TextFormat::ParseFromString(text, &message);
  return message;
}

void BM_CompileGpt2(benchmark::State& state) {
  const std::string pipe = std::to_string(state.range(0)), sequences = std::to_string(state.range(1));
  auto model = LoadModel("gpt2");
  auto recipe = Parse<Recipe>("sequence_length: 1024 global_batch_sequences: " + sequences);
  auto plan = Parse<Plan>("mesh { axes { name: 'pipe' size: " + pipe + " } }");
  auto cluster = Parse<Cluster>(R"(
    name: "c" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 80000000000 memory_bytes_per_second: 2e12
             peaks { dtype: BF16 flops_per_second: 312e12 } peaks { dtype: FP32 flops_per_second: 19.5e12 } }
    intra_node { bytes_per_second: 3e11 latency_seconds: 1e-6 }
    inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
    nics_per_node: 8 host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000000)");
  for (auto _ : state) {
    auto program = planner::CompilePlan(*model, recipe, plan, cluster, {});
    if (!program.ok()) state.SkipWithError(program.status().ToString().c_str());
    benchmark::DoNotOptimize(program);
  }
}
BENCHMARK(BM_CompileGpt2)->Args({8, 64})->Args({8, 512})->Args({1, 8})->Unit(benchmark::kMillisecond);

// Tensor parallelism over 8 ranks with sequence parallelism, pipe 16, data 128, two stages per rank, a batch of 2048
// sequences of 8192 tokens.
void BM_CompileLlama405b(benchmark::State& state) {
  const std::string data = std::to_string(state.range(0)), nodes = std::to_string(16 * state.range(0));
  auto model = LoadModel("llama-3.1-405b");
  auto recipe = Parse<Recipe>("sequence_length: 8192 microbatch_sequences: 1 global_batch_sequences: " +
                              std::to_string(16 * state.range(0)));
  auto plan = Parse<Plan>("mesh { axes { name: 'x' size: 8 } axes { name: 'data' size: " + data +
                          " } axes { name: 'pipe' size: 16 } } sequence_parallel: true "
                          "schedule { name: 'interleaved' virtual_stages: 2 } recompute { mode: FULL }");
  auto cluster = Parse<Cluster>(R"(
    name: "c" devices_per_node: 8
    device { name: "d" memory_bytes: 85520809984 memory_bytes_per_second: 3.35e12
             peaks { dtype: BF16 flops_per_second: 989e12 } peaks { dtype: FP32 flops_per_second: 67e12 } }
    intra_node { bytes_per_second: 370e9 latency_seconds: 3.4e-6 }
    inter_node { bytes_per_second: 45e9 latency_seconds: 14e-6 }
    nics_per_node: 8 host { bytes_per_second: 63e9 } host_memory_bytes: 2000000000000 nodes: )" +
                                nodes);
  int64_t bytes = 0;
  for (auto _ : state) {
    auto program = planner::CompilePlan(*model, recipe, plan, cluster, {});
    if (!program.ok()) {
      state.SkipWithError(program.status().ToString().c_str());
      return;
    }
    bytes = static_cast<int64_t>(program->ByteSizeLong());
  }
  state.counters["program_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_CompileLlama405b)->Arg(128)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft
