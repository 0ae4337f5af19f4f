// How long Compile() takes: GPT-2 124M at pipe 8 with 64 microbatches, evaluation program and verification included.
//
//   bazel run -c opt //compiler:compile_benchmark
#include <string>

#include "benchmark/benchmark.h"
#include "compiler/compile.h"
#include "compiler/load_model.h"
#include "google/protobuf/text_format.h"

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
    intra_node { bytes_per_second: 3e11 latency_seconds: 1e-6 } inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
    nics_per_node: 8 host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000000)");
  for (auto _ : state) {
    auto program = Compile(*model, recipe, plan, cluster, {});
    if (!program.ok()) state.SkipWithError(program.status().ToString().c_str());
    benchmark::DoNotOptimize(program);
  }
}
BENCHMARK(BM_CompileGpt2)->Args({8, 64})->Args({8, 512})->Args({1, 8})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft
