#include "tests/accuracy/run_model.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Measurement MakeRun(const std::string& kind) {
  Measurement run;
  run.id = "run";
  run.model.kind = kind;
  run.model.layers = 3;
  run.model.hidden = 64;
  run.model.heads = 4;
  run.model.kv_heads = 4;
  run.model.ffn_hidden = 160;
  run.model.vocabulary = 1000;
  run.model.sequence = 128;
  return run;
}

int64_t Parameters(const ModelGraph& graph) {
  int64_t sum = 0;
  for (const GraphParameter& parameter : graph.parameters()) {
    int64_t elements = 1;
    for (int64_t extent : parameter.shape()) elements *= extent;
    sum += elements;
  }
  return sum;
}

TEST(RunModel, SizesBecomeParameters) {
  const auto parameters = [](const Measurement& run) {
    std::vector<std::string> assumptions;
    const auto graph = ModelOf(run, Runtime(), &assumptions);
    EXPECT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(kernels::ValidateModelGraph(*graph).ok()) << kernels::ValidateModelGraph(*graph);
    return Parameters(*graph);
  };
  const int64_t d = 64, f = 160, v = 1000, s = 128;
  // A GPT has products with biases, two norms per layer, token and position embeddings, and a last norm.
  EXPECT_EQ(parameters(MakeRun("dense-gpt (MPT)")),
            3 * (4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d) + v * d + s * d + 2 * d);
  const int64_t llama = 3 * (4 * d * d + 3 * d * f + 2 * d) + v * d + d;
  EXPECT_EQ(parameters(MakeRun("dense-llama")), llama + v * d);
  EXPECT_EQ(parameters(MakeRun("dense-llama (tied embeddings)")), llama);
  Measurement grouped = MakeRun("dense-gpt");
  grouped.model.kv_heads = 2;
  EXPECT_EQ(parameters(grouped), 3 * (3 * d * d + 2 * d * f + 4 * d) + 2 * v * d + 2 * d);
}

TEST(RunModel, OtherArchitecturesAreThoseOfAGptALlamaOrABert) {
  std::vector<std::string> assumptions;
  const auto name = [&](const char* kind) {
    const auto graph = ModelOf(MakeRun(kind), Runtime(), &assumptions);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return Parameters(graph.value_or(ModelGraph()));
  };
  EXPECT_EQ(name("dense-qwen (GQA)"), name("dense-llama"));
  EXPECT_EQ(name("Mistral"), name("Dense-Llama"));
  EXPECT_EQ(name("OPT"), name("dense-gpt"));
  EXPECT_THAT(assumptions, ElementsAre("'dense-qwen (GQA)' as a Llama", "'Mistral' as a Llama", "'OPT' as a GPT"));
  // In addition to a GPT, BERT has a second embedding, a norm for it, and a product and a norm in its head.
  EXPECT_GT(name("bert"), name("dense-gpt"));
  EXPECT_EQ(name("dense-bert"), name("bert"));
  Measurement deep = MakeRun("dense-llama");
  deep.model.layers = 1001;
  EXPECT_THAT(std::string(ModelOf(deep, Runtime(), &assumptions).status().message()), HasSubstr("model.layers = 1001"));
}

TEST(RunModel, InnerWidthDecidesPlainDenseModels) {
  std::vector<std::string> assumptions;
  const auto name = [&](const char* kind, int64_t between) {
    Measurement run = MakeRun(kind);
    run.model.ffn_hidden = between;
    const auto graph = ModelOf(run, Runtime(), &assumptions);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return Parameters(graph.value_or(ModelGraph()));
  };
  const int64_t width = *MakeRun("dense-gpt").model.hidden;
  EXPECT_EQ(name("dense", 4 * width), name("dense-gpt", 4 * width));
  EXPECT_EQ(name("", 3 * width), name("dense-llama", 3 * width));
  EXPECT_EQ(name("dense (non-MoE)", 3 * width), name("dense-llama", 3 * width));
  EXPECT_EQ(name("decoder-only transformer", 3 * width), name("dense-llama", 3 * width));
  EXPECT_THAT(assumptions, ElementsAre("'dense', as a GPT", "of no stated kind, as a Llama",
                                       "'dense (non-MoE)', as a Llama", "'decoder-only transformer', as a Llama"));
}

TEST(RunModel, AWordMoreIsAnotherArchitecture) {
  std::vector<std::string> assumptions;
  for (const char* kind :
       {"transformer encoder", "transformer with cross attention", "dense sparse-attention", "decoders", "-", "()"}) {
    EXPECT_THAT(std::string(ModelOf(MakeRun(kind), Runtime(), &assumptions).status().message()),
                HasSubstr(std::string("model.kind is '") + kind + "'; known: dense-gpt, dense-llama, bert"));
  }
  EXPECT_THAT(assumptions, testing::IsEmpty());
  // An additional word either means another architecture, or only states the size of a known one.
  constexpr struct {
    const char *kind, *why;
  } kOther[] = {{"dense-llama (MLA)", "latent attention"},
                {"Llama-3.2 Vision 11B", "images"},
                {"dense-gpt, Mamba hybrid", "state-space"},
                {"qwen2-VL", "images"},
                {"llama_3 LoRA", "weft trains all weights"},
                {"dense-llama with linear attention", "state-space"},
                {"dense-gpt + MTP", "next token"},
                {"dense (MLA)", "latent attention"},
                {"dense-decoder-only transformer (RWKV)", "state-space"},
                {"decoder-only vision-language", "images"}};
  for (const auto& [kind, why] : kOther) {
    EXPECT_THAT(std::string(ModelOf(MakeRun(kind), Runtime(), &assumptions).status().message()), HasSubstr(why))
        << kind;
  }
  for (const char* kind : {"dense-llama (tied embeddings)", "Llama-3.1 8B", "Qwen2.5-7B", "dense-gpt (MPT)"}) {
    EXPECT_TRUE(ModelOf(MakeRun(kind), Runtime(), &assumptions).ok()) << kind;
  }
  for (const char* kind : {"Dense Transformer", "dense-decoder", "decoder-only", "dense decoder-only transformer"}) {
    EXPECT_TRUE(ModelOf(MakeRun(kind), Runtime(), &assumptions).ok()) << kind;
  }
}

TEST(RunModel, StepsOfAnAblation) {
  Measurement run = MakeRun("dense-gpt");
  std::vector<std::string> assumptions;
  EXPECT_EQ(CumulativeStep(run), 0);
  run.extra["cumulative_step"] = "2";
  EXPECT_EQ(CumulativeStep(run), 2);
  const auto windows = [&] {
    std::vector<int64_t> found;
    const auto graph = ModelOf(run, Runtime(), &assumptions);
    EXPECT_TRUE(graph.ok()) << graph.status();
    for (const GraphOp& op : graph->ops()) {
      if (op.kind() == "attention") found.push_back(op.attributes().window());
    }
    return found;
  };
  EXPECT_THAT(windows(), ElementsAre(0, 0, 0));
  EXPECT_THAT(assumptions, testing::IsEmpty());
  run.extra["cumulative_step"] = "3";
  EXPECT_THAT(windows(), ElementsAre(64, 64, 64));
  EXPECT_THAT(assumptions, ElementsAre("attention to 64 tokens"));
  run.extra["cumulative_step"] = "-1";
  EXPECT_EQ(CumulativeStep(run), 0);
}

TEST(RunModel, SizesThatFollowFromOthers) {
  std::vector<std::string> assumptions;
  Measurement run = MakeRun("dense-gpt");
  CompleteSizes(&run, &assumptions);
  EXPECT_THAT(assumptions, testing::IsEmpty());
  run.model.hidden = 14400;
  run.model.vocabulary = 250000;
  run.model.billions = 194;
  run.plan.tp = 8;
  run.model.layers.reset();
  run.model.heads.reset();
  run.model.ffn_hidden.reset();
  CompleteSizes(&run, &assumptions);
  EXPECT_EQ(run.model.layers, 77);
  EXPECT_EQ(run.model.heads, 120);
  EXPECT_EQ(run.model.ffn_hidden, 57600);
  EXPECT_EQ(assumptions.size(), 3u);
}

TEST(RunModel, MissingSizesAreNamedAndVocabulariesAssumed) {
  std::vector<std::string> assumptions;
  Measurement run = MakeRun("dense-llama");
  run.model.vocabulary.reset();
  ASSERT_TRUE(ModelOf(run, Runtime(), &assumptions).ok());
  EXPECT_THAT(assumptions, ElementsAre("a vocabulary of 32000"));
  run.model.heads.reset();
  EXPECT_EQ(std::string(ModelOf(run, Runtime(), &assumptions).status().message()), "model.heads is not stated");
  run.model.heads = 3;
  EXPECT_THAT(std::string(ModelOf(run, Runtime(), &assumptions).status().message()), HasSubstr("heads"));
  for (const char* kind : {"moe", "moe-mla", "t5", "gpt-moe", "encoder-decoder", "dense-palm",
                           "microbench-one-layer (dense-gpt)", "mamba"}) {
    EXPECT_THAT(std::string(ModelOf(MakeRun(kind), Runtime(), &assumptions).status().message()),
                HasSubstr(std::string("model.kind is '") + kind));
  }
}

}  // namespace
}  // namespace weft
