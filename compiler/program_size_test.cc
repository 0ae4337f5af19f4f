// Checks that a program's size depends on its roles, not on the machine (rule P8): Llama-3.1 405B on 1,024 and on
// 16,384 ranks.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

// Tensor 8, pipe 16, two stages per rank; 16 microbatches of a sequence for each data replica.
Program ForReplicas(int data) {
  const auto model = LoadModel("llama-3.1-405b");
  EXPECT_TRUE(model.ok()) << model.status();
  const auto recipe =
      Parse<Recipe>(absl::StrCat("sequence_length: 8192 microbatch_sequences: 1 global_batch_sequences: ", 16 * data));
  const auto plan = Parse<Plan>(absl::StrCat("mesh { axes { name: 'x' size: 8 } axes { name: 'data' size: ", data,
                                             " } axes { name: 'pipe' size: 16 } } sequence_parallel: true "
                                             "schedule { name: 'interleaved' virtual_stages: 2 } "
                                             "recompute { mode: FULL }"));
  const auto cluster = Parse<Cluster>(R"(
    name: "c" nodes: 2048 devices_per_node: 8
    device { name: "d" memory_bytes: 85520809984 memory_bytes_per_second: 3.35e12
             peaks { dtype: BF16 flops_per_second: 989e12 } peaks { dtype: FP32 flops_per_second: 67e12 } }
    intra_node { bytes_per_second: 370e9 latency_seconds: 3.4e-6 }
    inter_node { bytes_per_second: 45e9 latency_seconds: 14e-6 }
    nics_per_node: 8 host { bytes_per_second: 63e9 } host_memory_bytes: 2000000000000)");
  planner::CompileOptions options;
  options.evaluation = false;
  const auto program = planner::CompilePlan(*model, recipe, plan, cluster, options);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : Program();
}

TEST(ProgramSize, DoesNotGrowWithTheDataDegree) {
  const Program small = ForReplicas(8), large = ForReplicas(128);
  ASSERT_EQ(small.templates_size(), 16);
  ASSERT_EQ(large.templates_size(), small.templates_size());
  EXPECT_EQ(large.segments_size(), small.segments_size());
  for (int i = 0; i < small.templates_size(); ++i) {
    const Template &a = small.templates(i), &b = large.templates(i);
    EXPECT_EQ(b.prologue_size(), a.prologue_size());
    EXPECT_EQ(b.body_size(), a.body_size());
    EXPECT_EQ(b.epilogue_size(), a.epilogue_size());
    EXPECT_EQ(b.buffers_size(), a.buffers_size());
    // LOCAL_LOSSES and LOSSES have a double for each microbatch of the global batch (rule P11).
    EXPECT_EQ(b.device_arena_bytes() - a.device_arena_bytes(), 2 * 8 * 16 * (128 - 8));
  }
  // The larger program has larger numbers in its mesh, recipe and strides over data. They take a few bytes more.
  const auto bytes = static_cast<int64_t>(small.ByteSizeLong());
  EXPECT_GT(bytes, 0);
  EXPECT_LE(static_cast<int64_t>(large.ByteSizeLong()), bytes + bytes / 1000);
  EXPECT_GE(static_cast<int64_t>(large.ByteSizeLong()), bytes - bytes / 1000);
}

}  // namespace
}  // namespace weft
