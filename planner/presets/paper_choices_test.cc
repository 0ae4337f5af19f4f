// Compares the choices that the four papers report with the choices of the presets. Where they differ, the test states
// by how much. docs/planning.md and tests/papers/history.md explain the runs. By default the test runs the smaller
// ones; with --full it runs all.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "catalog/catalog.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/presets/preset.h"
#include "proto/validate/validate_runtime.h"
#include "tests/full.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Run {
  std::string preset;
  ModelGraph model;
  std::string cluster;
  int64_t devices = 0;
  std::string recipe;
  std::string plan = "";
  std::string runtime = "";
  std::string network = "analytic";
  int wanted = 5;
};

PresetReport Planned(const Run& run) {
  SearchOptions options;
  options.space.recipe = Parse<Recipe>(run.recipe);
  options.space.plan = Parse<Plan>(run.plan);
  options.space.devices = run.devices;
  options.cost = "tiles";
  options.network = run.network;
  options.wanted = run.wanted;
  options.threads = 2;
  std::optional<Runtime> runtime;
  if (!run.runtime.empty()) {
    runtime = *LoadRuntime(run.runtime);
    options.runtime = &*runtime;
    options.space.plan = PlanUnder(*runtime, options.space.plan);
  }
  const auto report = PlanByPreset(run.preset, run.model, *LoadCluster(run.cluster), options);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return {};
  std::printf("%s\n", PresetReportText(*report).c_str());
  return *report;
}

const PresetPlan& ChosenOf(const PresetReport& report) {
  static const PresetPlan& none = *new PresetPlan;
  return report.plans_size() > 0 ? report.plans(report.chosen()) : none;
}

// Returns the plan of these axes. Fails the test if the preset did not consider it.
const PresetPlan& PlanOf(const PresetReport& report, const std::string& axes) {
  for (const PresetPlan& plan : report.plans()) {
    if (plan.run().settings().starts_with(axes)) return plan;
  }
  ADD_FAILURE() << axes;
  static const PresetPlan& none = *new PresetPlan;
  return none;
}

Run ChimeraRun(const std::string& model, int64_t devices, int64_t sequence, int64_t batch) {
  return {.preset = "chimera",
          .model = *LoadModel(model),
          .cluster = "piz-daint",
          .devices = devices,
          .recipe = absl::StrCat("sequence_length: ", sequence, " global_batch_sequences: ", batch,
                                 " clip_norm: 0 dropout: 0.1"),
          .plan = "attention: MATERIALIZED dropout_masks: true",
          .runtime = "pytorch-gloo"};
}

// Chimera, sec. 4.2.2: "For Bert-48, the performance model accurately selects the best configuration, W = 8 and D = 4",
// with B = 8. Here equation 1 puts this plan second, 2.9 % behind W = 4 and D = 8: a thread of the runtime sends 4.2
// GB/s, a figure that is fitted, and the paper does not state what it measured.
TEST(PaperChoices, ChimeraBert48) {
  const PresetReport report = Planned(ChimeraRun("chimera-bert-48", 32, 128, 256));
  EXPECT_THAT(ChosenOf(report).run().settings(), StartsWith("pp=8 dp=4 mbs=8"));
  const PresetPlan& paper = PlanOf(report, "pp=4 dp=8 mbs=8");
  EXPECT_NEAR(paper.modeled_seconds() / ChosenOf(report).modeled_seconds(), 1.029, 0.01);
}

// Chimera, sec. 4.2.2: "For GPT-2, the performance model selects W = 16 and D = 32, but the best performance is
// achieved by W = 64 and D = 8", by 1.7 %, with recomputation. Here equation 1 puts W = 32 and D = 16 first, and the
// paper's choice 0.7 % behind. D = 8 fits without recomputation and simulates fastest, as measured in the paper.
TEST(PaperChoices, ChimeraGpt2) {
  if (!full) GTEST_SKIP() << "with --full";
  const PresetReport report = Planned(ChimeraRun("chimera-gpt2", 512, 632, 512));
  for (const char* axes : {"pp=32 dp=16 mbs=1", "pp=8 dp=64 mbs=1"}) {
    const PresetPlan& plan = PlanOf(report, axes);
    EXPECT_TRUE(plan.fits()) << axes;
    EXPECT_LE(ChosenOf(report).modeled_seconds(), plan.modeled_seconds());
  }
  EXPECT_THAT(ChosenOf(report).run().settings(), StartsWith("pp=16 dp=32 mbs=1"));
  EXPECT_LE(PlanOf(report, "pp=8 dp=64").run().iteration_seconds(), ChosenOf(report).run().iteration_seconds());
}

// Sec. V-C of the 4D paper: GPT-20B on 32 GPUs. The fastest of all grids is among the first five that fit.
TEST(PaperChoices, Axonn4dGpt20b) {
  const PresetReport report = Planned({.preset = "axonn-4d",
                                       .model = *LoadModel("axonn-gpt-20b"),
                                       .cluster = "perlmutter",
                                       .devices = 32,
                                       .recipe = "sequence_length: 2048 global_batch_sequences: 32 clip_norm: 0",
                                       .plan = "precision { grads: BF16 reduce: BF16 }",
                                       .network = "flow",
                                       .wanted = full ? 1000 : 5});
  int fit = 0, place_of_chosen = 0;
  for (int i = 0; i < report.plans_size(); ++i) {
    fit += report.plans(i).fits() ? 1 : 0;
    if (i == report.chosen()) place_of_chosen = fit;
  }
  EXPECT_GE(fit, full ? 25 : 5);
  EXPECT_LE(place_of_chosen, 5);
}

// Returns a model of table I: the 12B config with other layers, hidden sizes and heads.
ModelGraph AxonnModel(int layers, int hidden, int heads) {
  const std::string text(FindInCatalog("models", "axonn-gpt-12b")->content);
  const auto model = ParseModel(absl::StrReplaceAll(text, {{"\"n_layer\": 48", absl::StrCat("\"n_layer\": ", layers)},
                                                           {"\"n_embd\": 4512", absl::StrCat("\"n_embd\": ", hidden)},
                                                           {"\"n_head\": 24", absl::StrCat("\"n_head\": ", heads)}}),
                                "table I", absl::StrCat("axonn-gpt-", layers, "x", hidden));
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

// Tables I and II of the AxoNN paper. With the paper's microbatch of 8 and 6 ranks, 12B needs 17.9 GiB here, and 14.8
// GiB are usable. So the preset takes 12 ranks; with microbatches of 4, it takes the paper's 6 x 8. For the larger
// models, the test only prints the choices.
TEST(PaperChoices, AxonnTable2) {
  struct Row {
    int layers, hidden, heads;
    int64_t devices, microbatch;
    const char* chosen = "";
  };
  for (const Row& row : {Row{48, 4512, 24, 48, 8, "pp=12 dp=4"}, Row{48, 4512, 24, 48, 4, "pp=6 dp=8"},
                         Row{48, 6336, 36, 96, 4}, Row{96, 6528, 48, 192, 4}, Row{96, 9360, 60, 384, 2}}) {
    if (!full && row.devices > 48) continue;
    const PresetReport report =
        Planned({.preset = "axonn",
                 .model = AxonnModel(row.layers, row.hidden, row.heads),
                 .cluster = "summit",
                 .devices = row.devices,
                 .recipe = absl::StrCat("sequence_length: 512 global_batch_sequences: 16384 microbatch_sequences: ",
                                        row.microbatch, " clip_norm: 0 dropout: 0.1"),
                 .plan = "precision { compute: FP16 grads: FP16 } attention: MATERIALIZED",
                 .runtime = "axonn"});
    EXPECT_THAT(ChosenOf(report).run().settings(), StartsWith(row.chosen));
  }
}

// Hanayo, sec. 5.2 and 5.3: with NVLink more waves are better, at most 4 on 8 ranks of 64 layers, and 4 on the machine
// with NVLink in pairs; on Lonestar6 two are best.
TEST(PaperChoices, HanayoWaves) {
  struct Row {
    const char* cluster;
    int64_t ranks, waves;
  };
  for (const Row& row : {Row{"lonestar6", 8, 2}, Row{"local-a100-nvlink-pairs", 8, 4}, Row{"local-a100-nvswitch", 8, 4},
                         Row{"cloud-v100", 8, 4}, Row{"local-a100-nvlink-pairs", 4, 4},
                         Row{"local-a100-nvswitch", 4, 8}, Row{"cloud-v100", 4, 8}}) {
    if (!full && row.ranks < 8) continue;
    const PresetReport report =
        Planned({.preset = "hanayo",
                 .model = *LoadModel("hanayo-bert"),
                 .cluster = row.cluster,
                 .devices = 8,
                 .recipe = "sequence_length: 512 global_batch_sequences: 16 clip_norm: 0 dropout: 0.1",
                 .plan = absl::StrCat("mesh { axes { name: 'pipe' size: ", row.ranks,
                                      " } } dropout_masks: true precision { compute: FP16 params: FP16 }"),
                 .runtime = "hanayo",
                 .network = "flow"});
    EXPECT_THAT(ChosenOf(report).run().settings(), HasSubstr(absl::StrCat("waves=", row.waves))) << row.cluster;
  }
}

}  // namespace
}  // namespace weft::planner
