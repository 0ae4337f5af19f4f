#include "tests/accuracy/framework.h"

#include "absl/strings/match.h"

namespace weft {
namespace {

// Tiers are those of the collection of measurements (README.md). Dropout 0.1 is the default of Megatron-LM's GPT; BLOOM
// trained without (its launch scripts). Scores were kernels of their own until FlashAttention (Dao et al. 2022,
// arXiv:2205.14135) came to Megatron-LM in 2023. Its all-reduce of gradients of inputs is asynchronous since 2022. Its
// and DeepSpeed's transfers between stages block, but for Megatron-Core's interleaved schedule.
constexpr Framework kFrameworks[] = {
    {"AxoNN 2021", "C", MATERIALIZED, 0.1, false, false, true, false},
    {"AxoNN-4D", "C", MATERIALIZED, 0.1, false, true, false, false},
    {"Aleph Alpha layouts", "A", FUSED, 0, false, false, false, true},
    {"BigScience BLOOM", "A", MATERIALIZED, 0, false, false, true, true},
    {"BigScience V100", "B", MATERIALIZED, 0.1, false, false, true, true},
    {"Chimera", "C", MATERIALIZED, 0.1, false, false, false, false},
    {"FlashAttention-2", "C", FUSED, 0, false, true, false, false},
    {"Hanayo", "C", MATERIALIZED, 0.1, false, false, false, false},
    {"IBM fms-fsdp", "B", FUSED, 0, false, true, false, false},
    {"InternEvo", "A", FUSED, 0, false, true, false, false},
    {"Korthikanti", "A", MATERIALIZED, 0.1, false, true, true, true},
    {"Llama 3 Table", "C", FUSED, 0, true, true, false, false},
    {"MT-NLG", "B", MATERIALIZED, 0.1, false, false, false, true},
    {"MegaScale", "A", FUSED, 0, true, true, false, true},
    {"Megatron-Bridge", "B", FUSED, 0, true, true, false, false},
    {"Megatron-Core", "B", FUSED, 0, true, true, false, false},
    {"Megatron-LM 2020", "A", MATERIALIZED, 0.1, false, false, true, true},
    {"Megatron-LM SC21", "B", MATERIALIZED, 0.1, false, false, true, true},
    {"MosaicML llm-foundry", "A", FUSED, 0, false, true, false, false},
    {"NVIDIA DGXC", "A", FUSED, 0, true, true, false, false},
    {"NVIDIA NeMo", "B", FUSED, 0, true, true, false, false},
    {"SimuMax", "A", FUSED, 0, true, false, false, true},
    {"Single published", "C", FUSED, 0, false, true, false, false},
    {"Small", "B", FUSED, 0, false, true, false, false},
    {"Zero Bubble", "A", MATERIALIZED, 0.1, false, true, true, false},
    {"nanotron", "B", FUSED, 0, true, true, false, true},
    {"stas00", "B", FUSED, 0, false, true, false, false},
    {"torchtitan", "A", FUSED, 0, true, true, false, false},
    {"vTrain", "A", MATERIALIZED, 0.1, false, false, true, true},
};

constexpr Framework kOther = {"", "", FUSED, 0, true, true, false, false};

}  // namespace

const Framework& FrameworkOf(absl::string_view family) {
  for (const Framework& framework : kFrameworks) {
    if (absl::StartsWith(family, framework.family)) return framework;
  }
  return kOther;
}

}  // namespace weft
