#include "proto/validate/validate_runtime.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft {
namespace {

Runtime Read(const std::string& text) {
  Runtime runtime;
  const absl::Status read = ParseMessage(text, "test", &runtime);
  EXPECT_TRUE(read.ok()) << read;
  return runtime;
}

TEST(ValidateRuntime, EveryFieldHasABadValue) {
  constexpr struct {
    const char *text, *error;
  } kBad[] = {
      {"name: \"\"", "runtime.name is missing or empty"},
      {"dropout: 1", "runtime.dropout = 1 must be at least 0 and less than 1"},
      {"plan { mesh {} }", "runtime.plan.mesh is set"},
      {"plan { partition { layers_per_stage: 1 } }", "runtime.plan.partition is set"},
      {"plan { offload { optimizer: true } }", "runtime.plan.offload is set"},
      {"plan { schedule { definition: \"x\" } }", "runtime.plan.schedule.definition is set"},
      {"plan { recompute { mode: LAYERS layers: 1 } }", "runtime.plan.recompute.layers is set"},
      {"plan { gradient_bucket_bytes: -1 }", "runtime.plan.gradient_bucket_bytes = -1 must be at least 0"},
      {"plan { zero { stage: 4 } }", "runtime.plan.zero.stage = 4 must be at most 3"},
      {"kernels { kernel: \"MATMULL\" }", "runtime.kernels[0].kernel = 'MATMULL' is unknown"},
      {"kernels { kernel: \"ROPE\" launches: -1 }", "runtime.kernels[0].launches = -1 must be at least 0"},
      {"kernels { kernel: \"ROPE\" bytes: -2 }", "runtime.kernels[0].bytes = -2 must be at least 0"},
      {"kernels { kernel: \"ROPE\" bytes: nan }", "runtime.kernels[0].bytes = nan must be at least 0"},
      {"kernels { kernel: \"ROPE\" time: 1e7 }", "runtime.kernels[0].time = 1e+07 must be at least 0"},
      {"kernels { kernel: \"ROPE\" from_compute_capability: -1 }", "from_compute_capability = -1 must be at least 0"},
      {"kernels { kernel: \"ROPE\" from_compute_capability: 90 below_compute_capability: 80 }",
       "runtime.kernels[0].below_compute_capability = 80 must be 0 or greater than"},
      {"kernels { kernel: \"ROPE\" } kernels { kernel: \"ROPE\" }",
       "runtime.kernels[1].kernel = 'ROPE' is listed twice"},
      {"host { launch_seconds: -1 }", "runtime.host.launch_seconds = -1 must be"},
      {"host { microbatch_seconds: inf }", "runtime.host.microbatch_seconds = inf must be"},
      {"host { step_seconds: 1e9 }", "runtime.host.step_seconds = 1e+09 must be"},
      {"tensor_pieces: 65", "runtime.tensor_pieces = 65 must be at most 64"},
      {"joins_from_compute_capability: -1", "runtime.joins_from_compute_capability = -1 must be at least 0"},
      {"member_seconds: -1", "runtime.member_seconds = -1"},
      {"usual_microbatch { most: 0 per_stage: 6 }", "runtime.usual_microbatch.most = 0 must be at least 1"},
      {"usual_microbatch { most: 16 }", "runtime.usual_microbatch.per_stage = 0 must be at least 1"},
      {"gathered_weight_bytes: -1", "runtime.gathered_weight_bytes = -1 must be at least 0"},
      {"memory { bytes_per_wide_gradient: -1 }", "runtime.memory.bytes_per_wide_gradient = -1"},
      {"kernels { kernel: 'ADD' workspace: nan }", "runtime.kernels[0].workspace = nan"},
      {"kernels { kernel: 'ADD' saved: -1 }", "runtime.kernels[0].saved = -1 must be at least 0"},
      {"kernels { kernel: 'GROUP_ALL_GATHER' saved: 2 }", "runtime.kernels[0].saved = 2 must be 0 for GROUP_ALL"},
      {"kernels { kernel: 'MATMUL' factor_bytes: -1 }", "runtime.kernels[0].factor_bytes = -1"},
      {"kernels { kernel: 'MATMUL' loss_time: inf }", "runtime.kernels[0].loss_time = inf"},
      {"kernels { kernel: 'ADD' loss_time: 1 }",
       "runtime.kernels[0].loss_time = 1 must be 0 for a kernel other than MATMUL"},
      {"kernels { kernel: 'ADD' in_8_bits: true }", "runtime.kernels[0].in_8_bits is set; it is for MATMUL, not ADD"},
      {"kernels { kernel: 'MATMUL' unsupported: true in_8_bits: true }",
       "runtime.kernels[0].unsupported is set, but the form also has other fields"},
      {"kernels { kernel: 'ADD' factor_bytes: 2 }",
       "runtime.kernels[0].factor_bytes = 2 must be 0 for a kernel other than MATMUL"},
      {"kernels { kernel: 'MATMUL' weights_cast_once: true }",
       "runtime.kernels[0].weights_cast_once is set; it is for"},
      {"kernels { kernel: 'GROUP_ALL_REDUCE' bytes: 0.5 }",
       "runtime.kernels[0].kernel = 'GROUP_ALL_REDUCE' is a collective, whose cost comes from the network"},
      {"kernels { kernel: 'GROUP_ALL_GATHER' launches: 2 }", "runtime.kernels[0].launches = 2 must be 0 for GROUP_ALL"},
      {"kernels { kernel: 'GROUP_ALL_GATHER' time: 2 }", "runtime.kernels[0].time = 2 must be 0 for GROUP_ALL_GATHER"},
      {"kernels { kernel: 'GROUP_ALL_GATHER' workspace: -1 }", "runtime.kernels[0].workspace = -1 must be 0 for GROUP"},
      {"memory { reserved_bytes: -1 }", "runtime.memory.reserved_bytes = -1 must be at least 0"},
      {"memory { fragmentation: 1 }", "runtime.memory.fragmentation = 1 must be"},
      {"memory { block_bytes: -1 }", "runtime.memory.block_bytes = -1 must be at least 0"},
  };
  for (const auto& bad : kBad) {
    Runtime runtime = Read("name: \"r\"");
    runtime.MergeFrom(Read(bad.text));
    if (std::string(bad.text) == "name: \"\"") runtime.clear_name();
    const absl::Status status = Validate(runtime);
    ASSERT_FALSE(status.ok()) << bad.text;
    EXPECT_NE(std::string(status.message()).find(bad.error), std::string::npos) << status;
  }
  EXPECT_TRUE(Validate(Read("name: \"r\" kernels { kernel: \"ROPE\" launches: 3 bytes: 2.5 }")).ok());
}

TEST(ValidateRuntime, DerivedReplacesKernelByKernel) {
  const Runtime base = Read(R"(name: "base" dropout: 0.1 sums_under_backward: true
                               plan { attention: MATERIALIZED gradient_sync: LAZY }
                               kernels { kernel: "ROPE" launches: 3 } kernels { kernel: "GELU" launches: 5 })");
  const Runtime derived = Derived(base, Read(R"(name: "own" base: "base" dropout: 0 sums_under_backward: false
                                                kernels { kernel: "ROPE" launches: 1 })"));
  EXPECT_EQ(derived.name(), "own");
  EXPECT_TRUE(derived.has_dropout());
  EXPECT_EQ(derived.dropout(), 0);
  EXPECT_FALSE(derived.sums_under_backward());
  EXPECT_EQ(derived.plan().attention(), MATERIALIZED);
  ASSERT_EQ(derived.kernels_size(), 2);
  EXPECT_EQ(derived.kernels(0).kernel(), "GELU");
  EXPECT_EQ(derived.kernels(1).launches(), 1);
}

TEST(ValidateRuntime, ThePlanWinsWhereItSpeaks) {
  const Runtime runtime = Read(R"(name: "r" plan { gradient_sync: LAZY gradient_bucket_bytes: 40 zero { group: 8 }
                                                   overlap { all_reduce: true } })");
  Plan plan;
  plan.set_gradient_bucket_bytes(7);
  plan.mutable_zero()->set_stage(1);
  plan.mutable_overlap()->set_all_reduce(false);
  const Plan made = PlanUnder(runtime, plan);
  EXPECT_EQ(made.gradient_sync(), LAZY);
  EXPECT_EQ(made.gradient_bucket_bytes(), 7);
  EXPECT_EQ(made.zero().stage(), 1);
  EXPECT_EQ(made.zero().group(), 8);
  EXPECT_FALSE(made.overlap().all_reduce());
  // A plan with another mode of recompute takes no recompute settings from the runtime.
  const Runtime every = Read("name: \"r\" plan { recompute { mode: EVERY every: 2 } }");
  Plan recomputes;
  EXPECT_EQ(PlanUnder(every, recomputes).recompute().every(), 2);
  recomputes.mutable_recompute()->set_every(3);
  EXPECT_EQ(PlanUnder(every, recomputes).recompute().mode(), Recompute::EVERY);
  EXPECT_EQ(PlanUnder(every, recomputes).recompute().every(), 3);
  recomputes.clear_recompute();
  recomputes.mutable_recompute()->set_mode(Recompute::FULL);
  EXPECT_EQ(PlanUnder(every, recomputes).recompute().SerializeAsString(), recomputes.recompute().SerializeAsString());
  // Without axis x there is nothing to cut, and with ZeRO 3 nothing to sum after the backwards.
  const Runtime wide =
      Read("name: \"r\" plan { sequence_parallel: true gradient_sync: LAZY gradient_bucket_bytes: 9 }");
  EXPECT_FALSE(PlanUnder(wide, plan).sequence_parallel());
  MeshAxis* axis = plan.mutable_mesh()->add_axes();
  axis->set_name("x");
  axis->set_size(2);
  EXPECT_TRUE(PlanUnder(wide, plan).sequence_parallel());
  plan.clear_gradient_bucket_bytes();
  plan.mutable_zero()->set_stage(3);
  EXPECT_EQ(PlanUnder(wide, plan).gradient_sync(), EAGER);
  EXPECT_EQ(PlanUnder(wide, plan).gradient_bucket_bytes(), 0);
}

}  // namespace
}  // namespace weft
