#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_test_util.h"

namespace weft {
namespace {

Device CpuDevice() { return Parse<Device>("peaks { dtype: FP32 flops_per_second: 1e11 }"); }
Device GpuDevice() {
  return Parse<Device>("peaks { dtype: FP32 flops_per_second: 2e13 } peaks { dtype: BF16 flops_per_second: 3e14 }");
}

TEST(ValidatePlan, FillsDefaults) {
  Plan plan;
  ASSERT_TRUE(ValidateAndResolve(&plan, CpuDevice()).ok());
  const std::string common = R"(
    schedule { name: "1f1b" } accumulation: IN_ORDER receive_buffers: 1 send_buffers: 2
    collective: "ring")";
  EXPECT_EQ(plan.DebugString(),
            Parse<Plan>(common + "precision { compute: FP32 params: FP32 grads: FP32 reduce: FP32 master: FP32 "
                                 "moments: FP32 }")
                .DebugString());
  plan.Clear();
  ASSERT_TRUE(ValidateAndResolve(&plan, GpuDevice()).ok());
  EXPECT_EQ(plan.DebugString(),
            Parse<Plan>(common + "precision { compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 "
                                 "moments: FP32 }")
                .DebugString());
}

TEST(ValidatePlan, PrecisionFollowsWhatIsGiven) {
  const auto compute = [](const std::string& precision, const Device& device) {
    Plan plan = Parse<Plan>("precision { " + precision + " }");
    const absl::Status status = ValidateAndResolve(&plan, device);
    EXPECT_TRUE(status.ok()) << status;
    return plan.precision().compute();
  };
  EXPECT_EQ(compute("compute: FP32", GpuDevice()), FP32);
  EXPECT_EQ(compute("compute: BF16", CpuDevice()), BF16);
  EXPECT_EQ(compute("moments: FP64", GpuDevice()), FP64);
  EXPECT_EQ(compute("grads: FP32", GpuDevice()), BF16);
  // This device emulates bf16, so bf16 gains nothing.
  const Device emulating =
      Parse<Device>("peaks { dtype: FP32 flops_per_second: 2e11 } peaks { dtype: BF16 flops_per_second: 2.1e11 }");
  EXPECT_EQ(compute("", emulating), FP32);
  EXPECT_EQ(compute("compute: BF16", emulating), BF16);
  EXPECT_EQ(compute("grads: FP32", CpuDevice()), FP32);
}

TEST(ResolvePlan, MomentsInHalfTheBytes) {
  for (const DType grads : {FP32, BF16}) {
    Plan plan = Parse<Plan>(absl::StrCat("precision { grads: ", DType_Name(grads), " moments: BF16 }"));
    ASSERT_TRUE(ValidateAndResolve(&plan, CpuDevice()).ok());
    const Precision& precision = plan.precision();
    EXPECT_EQ(precision.compute(), BF16);
    EXPECT_EQ(precision.params(), BF16);
    EXPECT_EQ(precision.reduce(), grads);
    EXPECT_EQ(precision.master(), FP32);
  }
}

TEST(ValidatePlan, AcceptsFullPlans) {
  Plan plan = Parse<Plan>(R"(
    mesh { axes { name: "x" size: 1 } axes { name: "data" size: 2 } axes { name: "pipe" size: 3 } }
    schedule { name: "gpipe" virtual_stages: 1 } partition { layers_per_stage: [4, 1, 2] }
    recompute { mode: LAYERS layers: [0, 3] } accumulation: EXACT receive_buffers: 4 send_buffers: 8
    gradient_bucket_bytes: 1000000 collective: "direct" step_barrier: true
  )");
  const absl::Status status = ValidateAndResolve(&plan, CpuDevice());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ValidatePlan, DefinitionsAreBounded) {
  Plan plan;
  plan.mutable_schedule()->set_definition(std::string(1 << 20, 'x'));
  EXPECT_TRUE(ValidateAndResolve(&plan, CpuDevice()).ok());
  EXPECT_EQ(plan.schedule().name(), "");
  plan.mutable_schedule()->set_definition(std::string((1 << 27) + 1, 'x'));
  EXPECT_THAT(std::string(ValidateAndResolve(&plan, CpuDevice()).message()),
              testing::HasSubstr("plan.schedule.definition has 134217729 bytes; allowed: at most 134217728"));
}

TEST(ValidatePlan, RefusesEveryBadField) {
  const Plan base = Parse<Plan>("mesh { axes { name: \"data\" size: 2 } axes { name: \"pipe\" size: 3 } }");
  const std::vector<Bad> table = {
      {"mesh.axes.name", "mesh.axes[1].name=pip", "plan.mesh.axes[1].name = 'pip' is unknown; nearest: 'pipe'"},
      {"mesh.axes.name", "mesh.axes[1].name=", "plan.mesh.axes[1].name = '' is unknown"},
      {"mesh.axes.name", "mesh.axes[1].name=data", "plan.mesh.axes[1].name = 'data' is listed twice"},
      {"mesh.axes.name", "mesh.axes[1].name=pp", "write 'pipe'"},
      {"mesh.axes.name", "mesh.axes[1].name=tp", "write 'x'"},
      {"mesh.axes.name", "mesh.axes[1].name=Tensor", "'Tensor' is not an axis of weft; write 'x'"},
      {"mesh.axes.name", "mesh.axes[1].name=pipeline", "write 'pipe'"},
      {"mesh.axes.name", "mesh.axes[1].name=fsdp", "write 'data'"},
      {"mesh.axes.name", "mesh.axes[1].name=context", "weft has no context parallelism: sequences are cut over 'x'"},
      {"mesh.axes.name", "mesh.axes[1].name=ep", "weft has no expert parallelism"},
      {"mesh.axes.size", "mesh.axes[0].size=0", "plan.mesh.axes[0].size = 0 must be at least 1"},
      {"mesh.axes.size", "mesh.axes[0].size=-4", "plan.mesh.axes[0].size = -4 must be at least 1"},
      {"mesh.axes.size", "mesh.axes[0].size=9223372036854775807", "must be at most 1048576"},
      {"mesh.axes.size", "mesh.axes[0].size=1048576", "ranks of plan.mesh = 3145728 must be at most 1048576"},
      {"schedule.virtual_stages", "schedule { virtual_stages: -1 }",
       "plan.schedule.virtual_stages = -1 must be at least 1; by default the schedule chooses it"},
      {"schedule.virtual_stages", "schedule { virtual_stages: 65537 }", "= 65537 must be at most 65536"},
      {"schedule.lanes", "schedule { lanes: 65 }", "plan.schedule.lanes = 65 must be at most 64"},
      {"schedule.limit", "schedule { limit: 1048577 }", "plan.schedule.limit = 1048577 must be at most 1048576"},
      {"schedule.definition", "schedule { definition: 'F' waves: 2 }",
       "plan.schedule.waves = 2 is given together with plan.schedule.definition"},
      {"schedule.definition", "schedule { definition: 'F' scaling: BACKWARD_HALVING }",
       "plan.schedule.scaling = BACKWARD_HALVING is given together with plan.schedule.definition"},
      {"schedule.waves", "schedule { waves: -1 }",
       "plan.schedule.waves = -1 must be at least 1; by default the schedule"},
      {"schedule.lanes", "schedule { lanes: -2 }", "plan.schedule.lanes = -2"},
      {"schedule.limit", "schedule { limit: -1 }", "plan.schedule.limit = -1"},
      {"schedule.group", "schedule { group: -1 }", "plan.schedule.group = -1"},
      {"schedule.scaling", "schedule { scaling: 3 }", "plan.schedule.scaling = 3 must be CONCATENATION"},
      {"gradient_sync", "gradient_sync: 3", "plan.gradient_sync = 3 must be EAGER, LAZY or EAGER_OPT"},
      {"transfer_order", "transfer_order: 3", "plan.transfer_order = 3 must be BY_EDGE"},
      {"transfer_placement", "transfer_placement: 3", "plan.transfer_placement = 3 must be EARLY"},
      {"between_halves", "between_halves: 3", "plan.between_halves = 3 must be OWN_ROWS"},
      {"partition.layers_per_stage", "partition.layers_per_stage=3,0,3",
       "plan.partition.layers_per_stage[1] = 0 must be at least 1"},
      {"recompute.mode", "recompute { mode: LAYERS }", "plan.recompute.layers is empty"},
      {"recompute.mode", "recompute { mode: 9 }",
       "plan.recompute.mode = 9 must be NONE, FULL, LAYERS, EVERY, SELECTIVE"},
      {"recompute.interval", "recompute { mode: FULL interval: 2 }",
       "plan.recompute.interval is given, but plan.recompute.mode is FULL; it needs mode INTERVAL"},
      {"recompute.interval", "recompute { mode: INTERVAL interval: -1 }", "plan.recompute.interval = -1"},
      {"recompute.mode", "recompute { mode: SELECTIVE }", "SELECTIVE needs plan.attention = MATERIALIZED"},
      {"recompute.layers", "recompute { layers: 1 }",
       "plan.recompute.layers is given, but plan.recompute.mode is NONE"},
      {"recompute.layers", "recompute { mode: LAYERS layers: [1, 1] }", "plan.recompute.layers[1] = 1 must be greater"},
      {"recompute.layers", "recompute { mode: LAYERS layers: -1 }", "plan.recompute.layers[0] = -1"},
      {"recompute.every", "recompute { mode: FULL every: 2 }", "plan.recompute.every is given"},
      {"recompute.every", "recompute { mode: EVERY }",
       "plan.recompute.every is missing; mode EVERY needs it, at least 1"},
      {"recompute.every", "recompute { mode: EVERY every: -1 }", "plan.recompute.every = -1"},
      {"precision.compute", "precision { compute: FP16 params: BF16 }", "is not supported yet; supported: fp32"},
      {"precision.reduce", "precision { compute: FP16 grads: FP16 reduce: FP32 }", "compute fp16, params fp16"},
      {"precision.compute", "precision { compute: INT32 }",
       "plan.precision.compute = INT32 cannot be used for training"},
      {"precision.compute", "precision { compute: UINT8 }",
       "plan.precision.compute = UINT8 cannot be used for training"},
      {"precision.compute", "precision { compute: 77 }", "plan.precision.compute = 77"},
      {"precision.params", "precision { compute: BF16 params: FP32 }", "compute bf16, params fp32"},
      {"precision.params", "precision { compute: TF32 params: BF16 }", "compute tf32, params bf16"},
      {"precision.grads", "precision { grads: TF32 }", "plan.precision.grads = TF32 must be FP32, BF16, FP16 or FP64"},
      {"precision.grads", "precision { grads: EXACT192 }", "plan.accumulation: EXACT"},
      {"precision.reduce", "precision { compute: FP32 reduce: BF16 }", "is not supported yet; supported: fp32"},
      {"precision.master", "precision { master: BF16 }", "is not supported yet"},
      {"precision.moments", "precision { compute: FP32 moments: FP64 }", "is not supported yet"},
      {"precision.moments", "precision { compute: FP16 moments: BF16 }", "if params are bf16, moments may be bf16 too"},
      {"accumulation", "accumulation: 5", "plan.accumulation = 5 must be IN_ORDER or EXACT"},
      {"receive_buffers", "receive_buffers: -1", "plan.receive_buffers = -1 must be at least 1"},
      {"send_buffers", "send_buffers: -1", "plan.send_buffers = -1 must be at least 1"},
      {"gradient_bucket_bytes", "gradient_bucket_bytes: -1", "plan.gradient_bucket_bytes = -1 must be at least 0"},
      {"sequence_parallel", "sequence_parallel: true", "needs mesh axis x of at least 2"},
      {"zero.stage", "zero { stage: -1 }", "plan.zero.stage = -1 must be at least 0"},
      {"zero.stage", "zero { stage: 4 }", "plan.zero.stage = 4 must be at most 3"},
      {"zero.group", "zero { stage: 1 group: -2 }", "plan.zero.group = -2 must be at least 0"},
      {"zero.group", "zero { group: 2 }", "plan.zero.group = 2 is given, but plan.zero.stage is 0"},
      {"zero.group", "zero { stage: 1 group: 3 }", "must be at most the 2 ranks of mesh axis data"},
      {"zero.reshard", "zero { stage: 3 reshard: 9 }", "plan.zero.reshard = 9 must be AFTER_FORWARD"},
      {"zero.reshard", "zero { stage: 2 reshard: NEVER }",
       "plan.zero.reshard = NEVER is given, but plan.zero.stage is 2; it needs stage 3"},
      {"zero.kept_layers", "zero { stage: 3 reshard: NEVER kept_layers: 1 }",
       "plan.zero.kept_layers is given, but plan.zero.reshard is NEVER; it needs LAYERS"},
      {"zero.kept_layers", "zero { stage: 3 reshard: LAYERS }", "plan.zero.kept_layers is empty"},
      {"zero.kept_layers", "zero { stage: 3 reshard: LAYERS kept_layers: -1 }",
       "plan.zero.kept_layers[0] = -1 must be at least 0"},
      {"zero.kept_layers", "zero { stage: 3 reshard: LAYERS kept_layers: [2, 2] }",
       "plan.zero.kept_layers[1] = 2 must be greater than the one before, 2"},
      {"zero.prefetch", "zero { stage: 3 prefetch: -1 }", "plan.zero.prefetch = -1 must be at least 0"},
      {"zero.prefetch", "zero { stage: 1 prefetch: 0 }", "plan.zero.prefetch = 0 is given, but plan.zero.stage is 1"},
      {"zero.prefetch", "zero { stage: 3 prefetch: 2 } overlap { all_gather: false }",
       "plan.zero.prefetch = 2 gathers layers ahead, but plan.overlap.all_gather is false"},
      {"overlap.gathered_cache_bytes", "overlap { gathered_cache_bytes: -1 }",
       "plan.overlap.gathered_cache_bytes = -1 must be at least 0"},
      {"overlap.gathered_cache_bytes", "overlap { gathered_cache_bytes: 9223372036854775807 }", "must be at most"},
      {"offload.bucket_elements", "offload { optimizer: true bucket_elements: -1 }",
       "plan.offload.bucket_elements = -1 must be at least 0"},
      {"offload.bucket_elements", "offload { bucket_elements: 5 }", "but plan.offload.optimizer is false"},
      {"offload.buckets_per_reduce", "offload { optimizer: true buckets_per_reduce: -1 }",
       "plan.offload.buckets_per_reduce = -1"},
      {"offload.activation_layers", "offload { activation_layers: -1 }", "plan.offload.activation_layers = -1"},
      {"loss_scale.fixed", "loss_scale { fixed: -1 }", "plan.loss_scale.fixed = -1"},
      {"loss_scale.fixed", "loss_scale { fixed: inf }", "plan.loss_scale.fixed = inf"},
      {"loss_scale.initial", "loss_scale { initial: -1 }", "plan.loss_scale.initial = -1"},
      {"loss_scale.initial", "loss_scale { fixed: 2 initial: 4 }", "a fixed scale does not grow"},
      {"loss_scale.growth_interval", "loss_scale { growth_interval: -1 }", "plan.loss_scale.growth_interval = -1"},
      {"attention", "attention: 2", "plan.attention = 2 must be FUSED or MATERIALIZED"},
  };
  // The registries check the names of schedules and collectives.
  CheckTable<Plan>(base, table,
                   {"schedule.name", "schedule.definition", "schedule.freeze", "collective", "step_barrier",
                    "group_transfers", "post_validation", "dropout_masks", "overlap.all_reduce",
                    "overlap.reduce_scatter", "overlap.all_gather", "offload.optimizer"},
                   [](Plan* plan) { return ValidateAndResolve(plan, CpuDevice()); });
}

}  // namespace
}  // namespace weft
