#include "compiler/inputs/usual_microbatch.h"

#include <optional>

#include "catalog/load.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Runtime Named(const char* name) {
  const absl::StatusOr<Runtime> runtime = LoadRuntime(name);
  EXPECT_TRUE(runtime.ok()) << runtime.status();
  return runtime.value_or(Runtime());
}

// All rows of Megatron-LM's examples/academic_paper_scripts/sc21/run_table_1.sh.
constexpr struct {
  const char* model;
  int64_t tensor, stages, microbatch, batch, nodes;
} kScript[] = {
    {"1.7B", 1, 1, 16, 512, 4},   {"3.6B", 2, 1, 16, 512, 8},    {"7.5B", 4, 1, 16, 512, 16},
    {"18B", 8, 1, 8, 1024, 32},   {"39B", 8, 2, 4, 1536, 64},    {"76B", 8, 4, 2, 1792, 128},
    {"145B", 8, 8, 2, 2304, 192}, {"310B", 8, 16, 1, 2160, 240}, {"530B", 8, 35, 1, 2520, 315},
    {"1T", 8, 64, 1, 3072, 384},
};

TEST(UsualMicrobatch, WithinAFactorOfTwoOfEveryRowOfTheScript) {
  constexpr int64_t kDevicesPerNode = 8;
  int same = 0;
  for (const char* name : {"megatron-2020", "megatron-2022"}) {
    const Runtime runtime = Named(name);
    for (const auto& row : kScript) {
      SCOPED_TRACE(row.model);
      const int64_t replicas = row.nodes * kDevicesPerNode / (row.tensor * row.stages);
      const int64_t estimate = UsualMicrobatchOf(runtime, row.batch, replicas, row.stages).value_or(1);
      EXPECT_LE(estimate, 2 * row.microbatch);
      EXPECT_GE(2 * estimate, row.microbatch);
      same += estimate == row.microbatch;
    }
  }
  EXPECT_EQ(same, 2 * 9);
}

TEST(UsualMicrobatch, IsOneSequenceForOtherRuntimes) {
  for (const char* name : {"megatron", "megatron-2023", "megatron-core", "megatron-deepspeed", "nemo", "weft"}) {
    EXPECT_EQ(UsualMicrobatchOf(Named(name), 512, 32, 1).value_or(1), 1) << name;
  }
}

TEST(UsualMicrobatch, LeavesSoManyForEveryStage) {
  Runtime runtime;
  runtime.mutable_usual_microbatch()->set_most(16);
  runtime.mutable_usual_microbatch()->set_per_stage(6);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 96, 2, 4), 2);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 94, 2, 4), 1);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 2048, 2, 4), 16);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 24, 2, 1), 4);
  // With microbatches of one sequence, 24 sequences leave six for each of four stages; 23 leave fewer than six.
  EXPECT_EQ(UsualMicrobatchOf(runtime, 24, 1, 4), 1);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 23, 1, 4), std::nullopt);
  // If replicas cannot share the batch evenly, other checks refuse it.
  EXPECT_EQ(UsualMicrobatchOf(runtime, 95, 2, 4), std::nullopt);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 95, 0, 4), std::nullopt);
  EXPECT_EQ(UsualMicrobatchOf(runtime, 95, 1, 0), std::nullopt);
}

}  // namespace
}  // namespace weft
