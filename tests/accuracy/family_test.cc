#include "tests/accuracy/family.h"

#include <string>
#include <vector>

#include "catalog/load.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Measurement Row(const std::string& family) {
  Measurement run;
  run.family = family;
  return run;
}

std::string Named(const Measurement& run) {
  std::vector<std::string> assumptions;
  return RuntimeOf(run, &assumptions);
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
                             "Paxml (JAX) FSDP",
                             "nanotron",
                             "stas00",
                             "torchtitan",
                             "vTrain",
                             "unknown"}) {
    const absl::StatusOr<Runtime> runtime = LoadRuntime(Named(Row(family)));
    EXPECT_TRUE(runtime.ok()) << family << ": " << runtime.status();
  }
}

TEST(Family, ARowMayNameAVariant) {
  Measurement run = Row("torchtitan");
  EXPECT_EQ(Named(run), "torchtitan");
  run.extra["torch_compile"] = "true";
  EXPECT_EQ(Named(run), "torchtitan-compile");
  run.plan.precision = "fp8 linear + bf16";
  EXPECT_EQ(Named(run), "torchtitan-compile-fp8");
  run.extra.clear();
  EXPECT_EQ(Named(run), "torchtitan-compile-fp8");
  run.plan.precision = "float8 rowwise";
  EXPECT_EQ(Named(run), "torchtitan-compile-fp8-rowwise");
  run = Row("NVIDIA NeMo");
  run.plan.precision = "FP8, row-wise";
  EXPECT_EQ(Named(run), "nemo-fp8");
  run = Row("Paxml (JAX) FSDP");
  EXPECT_EQ(Named(run), "paxml");
  run.plan.precision = "fp8";
  EXPECT_EQ(Named(run), "paxml-fp8");
  EXPECT_EQ(Named(Row("MaxText (JAX) FSDP")), "torchtitan");
  run = Row("Aleph Alpha layouts");
  run.extra["fused_rmsnorm"] = "false";
  EXPECT_EQ(Named(run), "aleph-alpha-plain-norm");
  run.extra["attention_kernel"] = "FlashAttention-1";
  EXPECT_EQ(Named(run), "aleph-alpha-plain-norm-flash1");
  run.extra["attention_kernel"] = "Megatron fused softmax";
  EXPECT_EQ(Named(run), "aleph-alpha-plain-norm-fused-softmax");
  run = Row("AxoNN-4D");
  run.extra["framework"] = "DeepSpeed ZeRO-3";
  EXPECT_EQ(Named(run), "deepspeed");
  run = Row("Megatron-LM SC21");
  EXPECT_EQ(Named(run), "megatron-2020");
  run.plan.zero_stage = 3;
  EXPECT_EQ(Named(run), "deepspeed-2021");
  run = Row("BigScience V100");
  run.extra["framework"] = "DeepSpeed";
  EXPECT_EQ(Named(run), "bloom");
  run.plan.zero_stage = 3;
  EXPECT_EQ(Named(run), "deepspeed-2021");
  run = Row("BigScience V100");
  run.extra["framework"] = "Megatron";
  EXPECT_EQ(Named(run), "megatron-2020");
  run = Row("MegaScale");
  EXPECT_EQ(Named(run), "megatron-2023");
  run.extra["framework"] = "MegaScale";
  EXPECT_EQ(Named(run), "megascale");
}

TEST(Family, AStrangerIsKnownByItsFramework) {
  const auto by = [](const char* family, const char* framework, const char* gpu) {
    Measurement run = Row(family);
    run.machine.gpu = gpu;
    if (*framework != 0) run.extra["framework"] = framework;
    std::vector<std::string> assumptions;
    const std::string runtime = RuntimeOf(run, &assumptions);
    EXPECT_TRUE(LoadRuntime(runtime).ok()) << runtime;
    // The choice is listed as an assumption, unless the family is known.
    EXPECT_EQ(assumptions.size(), runtime == "llm.c" ? 0u : 1u) << runtime;
    return runtime;
  };
  EXPECT_EQ(by("A lab", "", "H100"), "megatron-core");
  EXPECT_EQ(by("A lab", "torchtitan", "H100"), "torchtitan");
  EXPECT_EQ(by("A lab", "PyTorch FSDP", "H100"), "torchtitan");
  EXPECT_EQ(by("A lab", "DeepSpeed ZeRO-3", "H100"), "deepspeed");
  EXPECT_EQ(by("A lab", "GPT-NeoX (Megatron-DeepSpeed)", "A100"), "megatron-deepspeed");
  EXPECT_EQ(by("A lab", "Megatron-LM", "V100-32GB"), "megatron-2020");
  EXPECT_EQ(by("A lab", "Megatron-LM", "A100-80GB"), "megatron-2022");
  EXPECT_EQ(by("A lab", "Megatron-LM", "H100"), "megatron-core");
  EXPECT_EQ(by("A lab", "Megatron-Core", "A100"), "megatron-core");
  EXPECT_EQ(by("A lab", "zero-bubble-pipeline-parallelism", "A100"), "megatron-2022");
  EXPECT_EQ(by("Zero-bubble runs of a lab", "", "H100"), "megatron-core");
  EXPECT_EQ(by("Runs with Hugging Face Accelerate", "", "A100"), "transformers");
  // In a collection of runs by several frameworks, only the row itself names its framework.
  EXPECT_EQ(by("Small/single-node (llm.c, nanoGPT)", "", "A100"), "llm.c");
  EXPECT_EQ(by("Small/single-node (llm.c, nanoGPT)", "Composer", "A100"), "llm-foundry");
  EXPECT_EQ(by("Single published runs (OPT, NeoX)", "Megatron-DeepSpeed", "A100"), "megatron-deepspeed");
}

}  // namespace
}  // namespace weft
