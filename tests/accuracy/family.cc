#include "tests/accuracy/family.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "catalog/catalog.h"

namespace weft {
namespace {

// The tiers come from the collection of measurements (README.md).
constexpr Family kFamilies[] = {
    {"AxoNN 2021", "C", "axonn", false},
    {"AxoNN-4D", "C", "axonn", false},
    {"Aleph Alpha layouts", "A", "aleph-alpha", false},
    {"BigScience BLOOM", "A", "bloom", true},
    {"BigScience V100", "B", "megatron-deepspeed-2021", false},
    {"Chimera", "C", "megatron-2020", false},
    {"FlashAttention-2", "C", "megatron-core-blocking", false},
    {"Hanayo", "C", "megatron-2020", false},
    {"IBM fms-fsdp", "B", "fms-fsdp", false},
    {"InternEvo", "A", "internevo", false},
    {"Korthikanti", "A", "megatron-2022", false},
    {"Llama 3 Table", "C", "megatron-core", false},
    {"MT-NLG", "B", "megatron-2020", false},
    {"MegaScale", "A", "megatron-2023", false},
    {"Megatron-Bridge", "B", "nemo", false},
    {"Megatron-Core", "B", "megatron-core", false},
    {"Megatron-LM 2020", "A", "megatron-2020", false},
    {"Megatron-LM SC21", "B", "megatron-2020", false},
    {"MosaicML llm-foundry", "A", "llm-foundry", false},
    {"NVIDIA DGXC", "A", "nemo", false},
    {"NVIDIA NeMo", "B", "nemo", false},
    {"SimuMax", "A", "megatron-core-blocking", false},
    {"Single published", "C", "megatron-core", false, true},
    {"Small", "B", "llm.c", false, true},
    {"Zero Bubble", "A", "megatron-2022", false},
    {"nanotron", "B", "nanotron", true},
    {"stas00", "B", "transformers", true},
    {"torchtitan", "A", "torchtitan", true},
    {"vTrain", "A", "megatron-deepspeed", false},
};

constexpr Family kOther = {"", "", "megatron-core", false, true};

// Words that name a framework, and the closest runtime of the catalog. The first match counts.
constexpr struct {
  absl::string_view word, runtime;
} kFrameworks[] = {
    {"megatron-deepspeed", "megatron-deepspeed"},
    {"gpt-neox", "megatron-deepspeed"},
    // "Zero bubble" is a schedule on Megatron-LM, not DeepSpeed's ZeRO.
    {"zero bubble", "megatron"},
    {"zero-bubble", "megatron"},
    {"zero", "deepspeed"},
    {"deepspeed", "deepspeed"},
    {"torchtitan", "torchtitan"},
    {"nanotron", "nanotron"},
    {"foundry", "llm-foundry"},
    {"composer", "llm-foundry"},
    {"internevo", "internevo"},
    {"internlm", "internevo"},
    {"fms", "fms-fsdp"},
    {"paxml", "paxml"},
    {"llm.c", "llm.c"},
    {"megascale", "megascale"},
    {"axonn", "axonn"},
    {"aleph alpha", "aleph-alpha"},
    {"megatron-core", "megatron-core"},
    {"megatron core", "megatron-core"},
    {"megatron-bridge", "nemo"},
    {"nemo", "nemo"},
    {"transformer engine", "megatron-core"},
    {"megatron", "megatron"},
    {"transformers", "transformers"},
    {"hugging", "transformers"},
    {"accelerate", "transformers"},
    {"axolotl", "transformers"},
    {"llama-factory", "transformers"},
    {"trl", "transformers"},
    {"fsdp", "torchtitan"},
    {"pytorch", "torchtitan"},
};

// The Megatron-LM runtime of the years in which the device was current.
absl::string_view MegatronOn(absl::string_view gpu) {
  const std::string name = absl::AsciiStrToUpper(gpu);
  if (absl::StrContains(name, "V100") || absl::StrContains(name, "P100")) return "megatron-2020";
  if (absl::StrContains(name, "A100") || absl::StrContains(name, "A800")) return "megatron-2022";
  return "megatron-core";
}

// Returns the runtime whose framework `text` names; empty if it names none.
std::string RuntimeNamedBy(absl::string_view text, absl::string_view gpu) {
  const std::string words = absl::AsciiStrToLower(text.substr(0, 400));
  for (const auto& framework : kFrameworks) {
    if (!absl::StrContains(words, framework.word)) continue;
    return std::string(framework.runtime == "megatron" ? MegatronOn(gpu) : framework.runtime);
  }
  return "";
}

bool Says(const Measurement& run, const char* name, absl::string_view value) {
  const auto found = run.extra.find(name);
  return found != run.extra.end() && absl::EqualsIgnoreCase(found->second, value);
}

bool Mentions(const Measurement& run, const char* name, absl::string_view text) {
  const auto found = run.extra.find(name);
  return found != run.extra.end() && absl::StrContains(absl::AsciiStrToLower(found->second), text);
}

}  // namespace

const Family& FamilyOf(absl::string_view family) {
  for (const Family& known : kFamilies) {
    if (absl::StartsWith(family, known.name)) return known;
  }
  return kOther;
}

std::string RuntimeOf(const Measurement& run, std::vector<std::string>* assumptions) {
  const Family& family = FamilyOf(run.family);
  std::string name(family.runtime);
  if (family.mixed) {
    const auto stated = run.extra.find("framework");
    std::string named = stated == run.extra.end() ? "" : RuntimeNamedBy(stated->second, run.machine.gpu);
    // The name of a known family does not show which framework ran a row; the name of an unknown family may.
    if (named.empty() && family.name.empty()) named = RuntimeNamedBy(run.family, run.machine.gpu);
    if (!named.empty()) name = named;
    if (!named.empty() || family.name.empty()) assumptions->push_back(absl::StrCat("as ", name, " runs it"));
  }
  if (Mentions(run, "framework", "zero-3") || (run.plan.zero_stage == 3 && name == "axonn")) name = "deepspeed";
  // Rows of these frameworks with ZeRO 3 are a baseline, which DeepSpeed of the same years ran.
  if (run.plan.zero_stage == 3 && (name == "megatron-2020" || name == "megatron-deepspeed-2021"))
    name = "deepspeed-2021";
  // BigScience compared DeepSpeed's pipeline with Megatron-LM's own.
  if (name == "megatron-deepspeed-2021") name = Says(run, "framework", "Megatron") ? "megatron-2020" : "bloom";
  if (Says(run, "framework", "MegaScale")) name = "megascale";
  const auto vary = [&name](absl::string_view suffix) {
    const std::string varied = absl::StrCat(name, suffix);
    if (FindInCatalog("runtimes", varied).ok()) name = varied;
  };
  if (Says(run, "torch_compile", "true")) vary("-compile");
  if (Says(run, "fused_rmsnorm", "false")) vary("-plain-norm");
  if (Mentions(run, "attention_kernel", "flashattention-1") || Mentions(run, "attention_kernel", "flash_attention1")) {
    vary("-flash1");
  }
  if (Mentions(run, "attention_kernel", "fused softmax")) vary("-fused-softmax");
  if (InEightBits(run.plan.precision)) {
    vary("-fp8");
    // For some frameworks, the catalog has FP8 only together with a compiler.
    if (!absl::EndsWith(name, "-fp8")) vary("-compile-fp8");
    const std::string words = absl::AsciiStrToLower(run.plan.precision);
    if (absl::StrContains(words, "rowwise") || absl::StrContains(words, "row-wise")) vary("-rowwise");
  }
  return name;
}

bool InEightBits(absl::string_view precision) {
  const std::string words = absl::AsciiStrToLower(precision);
  return absl::StrContains(words, "fp8") || absl::StrContains(words, "float8");
}

}  // namespace weft
