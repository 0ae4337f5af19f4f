// Overlapping collectives must pay: on a mesh of x = 2 and z = 4, each overlap pass shortens the simulated iteration of
// GPT-2.
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/load_model.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

double IterationSeconds(const std::string& overlap) {
  const auto model = LoadModel("gpt2");
  EXPECT_TRUE(model.ok()) << model.status();
  const auto recipe = Parse<Recipe>("sequence_length: 1024 global_batch_sequences: 16 microbatch_sequences: 8");
  const auto plan = Parse<Plan>(
      absl::StrCat("mesh { axes { name: 'x' size: 2 } axes { name: 'z' size: 4 } } overlap { ", overlap, " }"));
  const auto cluster = Parse<Cluster>(R"(
    name: "c" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 80000000000 memory_bytes_per_second: 2e12
             peaks { dtype: BF16 flops_per_second: 312e12 } peaks { dtype: FP32 flops_per_second: 19.5e12 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 }
    inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
    nics_per_node: 8 host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000000)");
  const auto program = planner::CompilePlan(*model, recipe, plan, cluster, {});
  EXPECT_TRUE(program.ok()) << overlap << ": " << program.status();
  if (!program.ok()) return 0;
  const auto simulation = sim::Simulate(*program, cluster, {});
  EXPECT_TRUE(simulation.ok()) << overlap << ": " << simulation.status();
  return simulation.ok() ? simulation->report.iteration_seconds() : 0;
}

TEST(OverlapPays, EveryPassShortensAStep) {
  const double blocking = IterationSeconds("all_reduce: false reduce_scatter: false all_gather: false");
  const double all_reduce = IterationSeconds("reduce_scatter: false all_gather: false");
  const double reduce_scatter = IterationSeconds("all_gather: false");
  const double all_gather = IterationSeconds("");
  const double cached = IterationSeconds("gathered_cache_bytes: 10000000000");
  EXPECT_LT(all_reduce, blocking);
  EXPECT_LT(reduce_scatter, all_reduce);
  EXPECT_LT(all_gather, reduce_scatter);
  // Overlapped gathers already cost nothing, so a cache may save no time.
  EXPECT_LE(cached, all_gather);
  const double cached_only =
      IterationSeconds("all_reduce: false reduce_scatter: false all_gather: false gathered_cache_bytes: 10000000000");
  EXPECT_LT(cached_only, blocking);
}

}  // namespace
}  // namespace weft
