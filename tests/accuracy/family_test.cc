#include "tests/accuracy/family.h"

#include "catalog/load_runtime.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Measurement Row(const std::string& family) {
  Measurement run;
  run.family = family;
  return run;
}

TEST(Family, IsFoundByHowItsNameBegins) {
  EXPECT_EQ(FamilyOf("vTrain single-node").runtime, "megatron-deepspeed");
  EXPECT_EQ(FamilyOf("vTrain single-node").tier, "A");
  EXPECT_TRUE(FamilyOf("torchtitan").reserved);
  EXPECT_EQ(FamilyOf("a lab of its own").tier, "");
}

TEST(Family, EveryRuntimeIsInTheCatalog) {
  for (const char* family : {"AxoNN 2021",
                             "AxoNN-4D",
                             "Aleph Alpha layouts",
                             "BigScience BLOOM",
                             "BigScience V100",
                             "Chimera",
                             "FlashAttention-2",
                             "Hanayo",
                             "IBM fms-fsdp",
                             "InternEvo",
                             "Korthikanti",
                             "Llama 3 Table",
                             "MT-NLG",
                             "MegaScale",
                             "Megatron-Bridge",
                             "Megatron-Core",
                             "Megatron-LM 2020",
                             "Megatron-LM SC21",
                             "MosaicML llm-foundry",
                             "NVIDIA DGXC",
                             "NVIDIA NeMo",
                             "SimuMax",
                             "Single published",
                             "Small",
                             "Zero Bubble",
                             "nanotron",
                             "stas00",
                             "torchtitan",
                             "vTrain",
                             "unknown"}) {
    const absl::StatusOr<Runtime> runtime = LoadRuntime(RuntimeOf(Row(family)));
    EXPECT_TRUE(runtime.ok()) << family << ": " << runtime.status();
  }
}

TEST(Family, ARowMayNameAVariant) {
  Measurement run = Row("torchtitan");
  EXPECT_EQ(RuntimeOf(run), "torchtitan");
  run.extra["torch_compile"] = "true";
  EXPECT_EQ(RuntimeOf(run), "torchtitan-compile");
  run.plan.precision = "fp8 linear + bf16";
  EXPECT_EQ(RuntimeOf(run), "torchtitan-compile-fp8");
  run.extra.clear();
  EXPECT_EQ(RuntimeOf(run), "torchtitan-compile-fp8");
  run = Row("Aleph Alpha layouts");
  run.extra["fused_rmsnorm"] = "false";
  EXPECT_EQ(RuntimeOf(run), "aleph-alpha-plain-norm");
  run = Row("AxoNN-4D");
  run.extra["framework"] = "DeepSpeed ZeRO-3";
  EXPECT_EQ(RuntimeOf(run), "deepspeed");
  run = Row("Megatron-LM SC21");
  EXPECT_EQ(RuntimeOf(run), "megatron-2020");
  run.plan.zero_stage = 3;
  EXPECT_EQ(RuntimeOf(run), "deepspeed-2021");
  run = Row("BigScience V100");
  run.extra["framework"] = "DeepSpeed";
  EXPECT_EQ(RuntimeOf(run), "bloom");
  run.plan.zero_stage = 3;
  EXPECT_EQ(RuntimeOf(run), "deepspeed-2021");
  run = Row("BigScience V100");
  run.extra["framework"] = "Megatron";
  EXPECT_EQ(RuntimeOf(run), "megatron-2020");
  run = Row("MegaScale");
  EXPECT_EQ(RuntimeOf(run), "megatron-2023");
  run.extra["framework"] = "MegaScale";
  EXPECT_EQ(RuntimeOf(run), "megascale");
}

}  // namespace
}  // namespace weft
