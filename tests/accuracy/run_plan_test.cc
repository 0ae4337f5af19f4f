#include "tests/accuracy/run_plan.h"

#include <functional>
#include <string>
#include <vector>

#include "catalog/load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Measurement Run() {
  Measurement run;
  run.machine.gpu = "A100";
  run.machine.gpus = 16;
  run.model.layers = 8;
  run.model.sequence = 128;
  run.plan.tp = 2;
  run.plan.pp = 4;
  run.plan.dp = 2;
  run.plan.micro_batch = 1;
  run.plan.global_batch = 32;
  run.plan.schedule = "1f1b";
  run.plan.recompute = "full";
  run.plan.precision = "bf16";
  return run;
}

Runtime RuntimeNamed(const std::string& name) {
  const absl::StatusOr<Runtime> runtime = LoadRuntime(name.empty() ? "megatron-core" : name);
  EXPECT_TRUE(runtime.ok()) << runtime.status();
  return runtime.value_or(Runtime());
}

RunPlan Make(const std::function<void(Measurement*)>& change, const char* runtime = "",
             std::vector<std::string>* assumptions = nullptr) {
  Measurement run = Run();
  change(&run);
  std::vector<std::string> unused;
  const auto plan = PlanOf(run, RuntimeNamed(runtime), assumptions == nullptr ? &unused : assumptions);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(RunPlan());
}

std::string Reason(const std::function<void(Measurement*)>& change) {
  Measurement run = Run();
  change(&run);
  std::vector<std::string> unused;
  const auto plan = PlanOf(run, RuntimeNamed(""), &unused);
  EXPECT_FALSE(plan.ok());
  return std::string(plan.status().message());
}

TEST(RunPlan, MeshBatchAndPrecision) {
  const RunPlan made = Make([](Measurement*) {});
  ASSERT_EQ(made.plan.mesh().axes_size(), 3);
  EXPECT_EQ(made.plan.mesh().axes(0).name(), "x");
  EXPECT_EQ(made.plan.mesh().axes(0).size(), 2);
  EXPECT_EQ(made.plan.mesh().axes(1).name(), "data");
  EXPECT_EQ(made.plan.mesh().axes(2).name(), "pipe");
  EXPECT_EQ(made.plan.mesh().axes(2).size(), 4);
  EXPECT_EQ(made.recipe.global_batch_sequences(), 32);
  EXPECT_EQ(made.recipe.sequence_length(), 128);
  EXPECT_EQ(made.plan.precision().compute(), BF16);
  EXPECT_EQ(made.plan.precision().grads(), FP32);
  EXPECT_EQ(made.plan.recompute().mode(), Recompute::FULL);
  EXPECT_FALSE(made.recompute_unknown);
  EXPECT_EQ(Make([](Measurement* r) { r->plan.precision = "fp16 mixed"; }, "megatron-2022").plan.precision().reduce(),
            FP16);
  EXPECT_EQ(Make([](Measurement* r) { r->plan.precision = "bf16 (reduce in bf16, PURE)"; }).plan.precision().reduce(),
            BF16);
}

TEST(RunPlan, ABatchThatIsAlmostShared) {
  const auto batch = [](int64_t stated) {
    return Make([&](Measurement* r) {
             r->plan.global_batch = stated;
             r->plan.dp = 2;
             r->plan.micro_batch = 4;
           })
        .recipe.global_batch_sequences();
  };
  EXPECT_EQ(batch(1538), 1536);
  EXPECT_EQ(batch(1536), 1536);
  // No batch that two replicas can share is near enough to these batches, so they stay as stated and the compiler
  // refuses them.
  EXPECT_EQ(batch(36), 36);
  EXPECT_EQ(batch(4), 4);
}

TEST(RunPlan, Schedules) {
  const auto schedule = [](const char* name, std::optional<int64_t> vpp = std::nullopt) {
    return Make([&](Measurement* r) {
             r->plan.schedule = name;
             r->plan.vpp = vpp;
           })
        .plan.schedule();
  };
  EXPECT_EQ(schedule("1f1b (DeepSpeed)").name(), "1f1b");
  EXPECT_EQ(schedule("interleaved-1f1b", 2).name(), "interleaved");
  EXPECT_EQ(schedule("interleaved-1f1b", 2).virtual_stages(), 2);
  EXPECT_EQ(schedule("", 2).name(), "interleaved");
  EXPECT_EQ(schedule("zero-bubble ZB-1p").name(), "zb-h1");
  EXPECT_EQ(schedule("zero-bubble ZB-2p").name(), "zb-h2");
  EXPECT_EQ(schedule("chimera (forward doubling)").name(), "chimera");
  EXPECT_EQ(schedule("GPipe").name(), "gpipe");
  EXPECT_EQ(schedule("PipeDream-flush").name(), "1f1b");
  EXPECT_EQ(schedule("Interleaved 1F1B", 2).virtual_stages(), 2);
  EXPECT_EQ(schedule("1F1B-interleaved").name(), "interleaved");
  EXPECT_EQ(schedule("1F1B (non-interleaved)").name(), "1f1b");
  EXPECT_EQ(schedule("zero-bubble ZB-V").name(), "zb-v");
  EXPECT_EQ(schedule("zero-bubble ZB-V").virtual_stages(), 2);
  EXPECT_EQ(schedule("gems").virtual_stages(), 0);
  for (const char* name : {"1F1B-I", "1f1bi", "1F1B, interleaved", "VPP", "virtual pipeline (1F1B)"}) {
    EXPECT_EQ(schedule(name).name(), "interleaved") << name;
  }
  EXPECT_EQ(schedule("ZB1P").name(), "zb-h1");
  EXPECT_EQ(schedule("Zero Bubble (ZBV)").name(), "zb-v");
  EXPECT_EQ(schedule("F-then-B").name(), "gpipe");
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.schedule = "zero-bubble 1F1B"; }), HasSubstr("zero-bubble 1F1B"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.schedule = "PipeDream-2BW"; }), HasSubstr("'PipeDream-2BW'"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.schedule = "DualPipe"; }), HasSubstr("plan.schedule is 'DualPipe'"));
  // 22 layers, the embedding and the head make 24 pieces for four ranks: six per rank, one per chunk.
  const RunPlan chunks = Make([](Measurement* r) {
    r->model.layers = 22;
    r->plan.schedule = "interleaved-1f1b (1 layer per chunk)";
  });
  EXPECT_EQ(chunks.plan.schedule().virtual_stages(), 6);
}

TEST(RunPlan, ReportsAssumptionsForUnknownSettings) {
  std::vector<std::string> assumptions;
  const RunPlan made = Make(
      [](Measurement* r) {
        r->plan.micro_batch.reset();
        r->plan.schedule.clear();
        r->plan.recompute.clear();
      },
      "", &assumptions);
  EXPECT_TRUE(made.recompute_unknown);
  EXPECT_EQ(made.plan.schedule().name(), "1f1b");
  EXPECT_THAT(assumptions, Contains("microbatches of one sequence"));
  EXPECT_THAT(assumptions, Contains("schedule 1f1b"));
  EXPECT_THAT(assumptions, Contains("with sequence parallelism"));
  EXPECT_TRUE(made.plan.sequence_parallel());
  const RunPlan replicas = Make([](Measurement* r) { r->plan.dp.reset(); });
  EXPECT_EQ(replicas.plan.mesh().axes(1).size(), 2);
  const RunPlan sharded = Make([](Measurement* r) {
    r->plan.tp.reset();
    r->plan.pp.reset();
    r->plan.dp.reset();
    r->plan.zero_stage = 3;
    r->model.sequence.reset();
  });
  EXPECT_EQ(sharded.plan.mesh().axes(0).size(), 16);
  EXPECT_EQ(sharded.recipe.sequence_length(), 2048);
  EXPECT_FALSE(Make([](Measurement* r) { r->plan.sequence_parallel = false; }).plan.sequence_parallel());
}

TEST(RunPlan, InfersMissingSizesFromTheDevices) {
  std::vector<std::string> assumptions;
  const RunPlan made = Make([](Measurement* r) { r->plan.tp.reset(); }, "", &assumptions);
  EXPECT_EQ(made.plan.mesh().axes(0).size(), 2);
  EXPECT_THAT(assumptions, Contains("tp = 2, which the devices make up"));
  const RunPlan replicas = Make([](Measurement* r) {
    r->plan.tp.reset();
    r->plan.pp.reset();
    r->plan.dp = 16;
  });
  EXPECT_EQ(replicas.plan.mesh().axes(0).size(), 16);
}

TEST(RunPlan, MicrobatchesAsMegatronsScriptsHaveThem) {
  const auto micro = [](int64_t batch, const char* runtime) {
    return Make(
               [&](Measurement* r) {
                 r->plan.micro_batch.reset();
                 r->plan.global_batch = batch;
               },
               runtime)
        .recipe.microbatch_sequences();
  };
  // The run has two replicas and four stages. The 2020 runtime leaves at least six microbatches per stage for every
  // replica: 96 = 2 x 4 x 6 x 2.
  EXPECT_EQ(micro(96, "megatron-2020"), 2);
  EXPECT_EQ(micro(94, "megatron-2020"), 1);
  EXPECT_EQ(micro(2048, "megatron-2022"), 16);
  EXPECT_EQ(micro(2048, "megatron-2023"), 1);
  EXPECT_EQ(micro(2048, "megatron-core"), 1);
}

TEST(RunPlan, WordsForThatASourceDoesNotSay) {
  EXPECT_EQ(Make([](Measurement* r) { r->plan.schedule = "N/A"; }).plan.schedule().name(), "1f1b");
  EXPECT_TRUE(Make([](Measurement* r) { r->plan.recompute = "unknown"; }).recompute_unknown);
  EXPECT_FALSE(Make([](Measurement* r) { r->plan.offload = "No"; }).plan.offload().optimizer());
  EXPECT_TRUE(Make([](Measurement* r) { r->plan.offload = "Optimizer to CPU"; }).plan.offload().optimizer());
}

TEST(RunPlan, AttentionAndRecompute) {
  const auto selective = [](Measurement* r) { r->plan.recompute = "selective (attention core)"; };
  EXPECT_EQ(Make(selective, "megatron-2022").plan.recompute().mode(), Recompute::SELECTIVE);
  EXPECT_EQ(Make(selective, "megatron-2022").plan.attention(), MATERIALIZED);
  // A fused kernel always recomputes the scores, so the plan needs no recompute setting.
  EXPECT_EQ(Make(selective).plan.recompute().mode(), Recompute::NONE);
  const auto kernel = [](const char* name) {
    return Make([&](Measurement* r) { r->extra["attention_kernel"] = name; }, "megatron-2022").plan.attention();
  };
  EXPECT_EQ(kernel("FlashAttention-2"), FUSED);
  EXPECT_EQ(kernel("no FlashAttention"), MATERIALIZED);
  EXPECT_EQ(kernel("flash_attn 2"), FUSED);
  EXPECT_EQ(kernel("PyTorch SDPA"), FUSED);
  EXPECT_EQ(kernel("none (PyTorch)"), MATERIALIZED);
  EXPECT_EQ(kernel("Megatron's fused softmax"), MATERIALIZED);
  // With an unknown kernel name, the plan keeps the attention of its runtime.
  EXPECT_EQ(kernel("ours"), MATERIALIZED);
  EXPECT_EQ(Make([](Measurement* r) { r->extra["attention_kernel"] = "ours"; }).plan.attention(),
            RuntimeNamed("").plan().attention());
  // Wordings of recomputation that depend on the framework.
  EXPECT_EQ(Make([](Measurement* r) { r->plan.recompute = "every other layer"; }).plan.recompute().every(), 2);
  EXPECT_EQ(
      Make([](Measurement* r) { r->plan.recompute = "selective (per op)"; }, "torchtitan").plan.recompute().every(), 2);
  EXPECT_EQ(Make([](Measurement* r) { r->plan.recompute = "none"; }, "torchtitan").plan.recompute().mode(),
            Recompute::NONE);
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.recompute = "odd"; }), HasSubstr("plan.recompute is 'odd'"));
}

TEST(RunPlan, TheRuntimeDecidesWhatTheRowDoesNot) {
  const RunPlan old = Make([](Measurement* r) { r->plan.precision.clear(); }, "megatron-2020");
  EXPECT_EQ(old.plan.precision().compute(), FP16);
  EXPECT_EQ(old.plan.precision().grads(), FP16);
  EXPECT_EQ(old.plan.transfer_placement(), DEFERRED);
  EXPECT_FALSE(old.plan.overlap().all_reduce());
  EXPECT_EQ(old.recipe.dropout(), 0.1);
  EXPECT_EQ(Make([](Measurement* r) { r->plan.precision = "bf16"; }, "megatron-2020").plan.precision().grads(), FP32);
  EXPECT_EQ(Make([](Measurement*) {}, "internevo").plan.precision().grads(), BF16);
  const auto eight = [](Measurement* r) {
    r->plan.precision = "fp8";
    r->machine.gpu = "H100";
  };
  EXPECT_EQ(Make(eight, "megatron-core-fp8").plan.precision().compute(), BF16);
}

TEST(RunPlan, WordsForPrecisionAndRecompute) {
  const auto computes = [](const char* words, const char* gpu = "A100") {
    return Make([&](Measurement* r) {
             r->plan.precision = words;
             r->machine.gpu = gpu;
           })
        .plan.precision()
        .compute();
  };
  EXPECT_EQ(computes("bfloat16"), BF16);
  EXPECT_EQ(computes("Float16"), FP16);
  EXPECT_EQ(computes("amp"), BF16);
  EXPECT_EQ(computes("mixed", "V100"), FP16);
  // "fp32" means products in fp32 unless the source says TF32.
  for (const char* words : {"fp32", "Float32", "fp32 (no TF32)"}) EXPECT_EQ(computes(words), FP32) << words;
  for (const char* words : {"tf32", "fp32 with TF32 products"}) EXPECT_EQ(computes(words), TF32) << words;
  EXPECT_EQ(computes("fp32", "V100"), FP32);
  const Precision wide = Make([](Measurement* r) { r->plan.precision = "tf32"; }, "nemo").plan.precision();
  for (const DType type : {wide.params(), wide.grads(), wide.reduce(), wide.master(), wide.moments()}) {
    EXPECT_EQ(type, FP32);
  }
  EXPECT_THAT(Reason([](Measurement* r) {
                r->plan.precision = "TF32";
                r->machine.gpu = "V100";
              }),
              HasSubstr("V100 has no products in TF32"));
  EXPECT_EQ(computes("bf16 (fp32 grad accumulation)"), BF16);
  // Other precisions are refused, not taken for 16 bits.
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.precision = "int8"; }), HasSubstr("known are bf16, fp16, fp8, tf32"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.precision = "nvfp4"; }), HasSubstr("4 bits"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.precision = "fp8"; }), HasSubstr("A100 has no products in 8 bits"));
  const auto recomputes = [](const char* words) {
    return Make([&](Measurement* r) { r->plan.recompute = words; }).plan.recompute().mode();
  };
  EXPECT_EQ(recomputes("Full"), Recompute::FULL);
  EXPECT_EQ(recomputes("gradient checkpointing"), Recompute::FULL);
  EXPECT_EQ(recomputes("off"), Recompute::NONE);
  EXPECT_EQ(recomputes("no activation checkpointing"), Recompute::NONE);
  // A selective recomputation of unknown extent is refused.
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.recompute = "selective activation checkpointing"; }),
              HasSubstr("plan.recompute is 'selective activation checkpointing'"));
  // "Full" for a part of the layers is refused.
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.recompute = "full (40 of 80 layers)"; }), HasSubstr("40 of 80"));
}

TEST(RunPlan, ShardingAndOffload) {
  const RunPlan zero = Make([](Measurement* r) {
    r->plan.zero_stage = 1;
    r->plan.dp = 4;
    r->machine.gpus = 32;
    r->extra["zero1_shard_group"] = "2";
  });
  EXPECT_EQ(zero.plan.zero().stage(), 1);
  EXPECT_EQ(zero.plan.zero().group(), 2);
  EXPECT_EQ(Make([](Measurement* r) { r->plan.zero_stage = 2; }).plan.zero().stage(), 1);
  EXPECT_TRUE(Make([](Measurement* r) { r->plan.offload = "optimizer to CPU"; }).plan.offload().optimizer());
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.offload = "cpu (full)"; }),
              HasSubstr("plan.offload is 'cpu (full)'"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.zero_stage = 4; }), HasSubstr("plan.zero_stage = 4"));
}

TEST(RunPlan, ReasonsWhyNot) {
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.cp = 2; }), HasSubstr("plan.cp = 2"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.ep = 8; }), HasSubstr("plan.ep = 8"));
  EXPECT_THAT(Reason([](Measurement* r) {
                r->plan.precision = "fp8 (hybrid)";
                r->machine.gpu = "H100";
              }),
              HasSubstr("runtime megatron-core has no products in 8 bits"));
  const auto no_mesh = [](Measurement* r) {
    r->plan.tp.reset();
    r->plan.pp.reset();
  };
  EXPECT_EQ(Reason(no_mesh), "plan.tp is not stated");
  EXPECT_EQ(Reason([](Measurement* r) { r->machine.gpus.reset(); }), "cluster.gpus is not stated");
  EXPECT_EQ(Reason([](Measurement* r) { r->plan.global_batch.reset(); }), "plan.global_batch is not stated");
  EXPECT_THAT(Reason([](Measurement* r) { r->machine.gpus = 17; }), HasSubstr("do not make up the 17 devices"));
  EXPECT_THAT(Reason([](Measurement* r) { r->plan.vpp = 100; }), HasSubstr("cannot be cut into 400 stages"));
}

}  // namespace
}  // namespace weft
