// The presets on small models: rules, limits that a user states, and bad input.
#include <optional>
#include <string>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/evaluate.h"
#include "planner/presets/preset.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct Task {
  std::string preset;
  int64_t devices = 4;
  std::string model = "gpt2-tiny";
  std::string recipe = "sequence_length: 64 global_batch_sequences: 16";
  std::string plan = "";
  // Device memory in MiB; 0 = all that the device has.
  int64_t memory = 0;
  int threads = 2;
};

absl::StatusOr<PresetReport> Planned(const Task& task, const Cluster& cluster) {
  SearchOptions options;
  options.space.recipe = Parse<Recipe>(task.recipe);
  options.space.plan = Parse<Plan>(task.plan);
  options.space.devices = task.devices;
  options.cost = "roofline";
  options.memory_bytes = task.memory << 20;
  options.threads = task.threads;
  return PlanByPreset(task.preset, *LoadModel(task.model), cluster, options);
}

absl::StatusOr<PresetReport> Planned(const Task& task) { return Planned(task, *LoadCluster("dgx-a100-80g")); }

const PresetPlan& ChosenOf(const PresetReport& report) { return report.plans(report.chosen()); }

std::string ErrorOf(const Task& task) {
  const auto report = Planned(task);
  EXPECT_FALSE(report.ok()) << ChosenOf(*report).run().settings();
  return std::string(report.status().message());
}

TEST(Presets, SortedByName) {
  for (size_t i = 1; i < Presets().size(); ++i) EXPECT_LT(Presets()[i - 1].name, Presets()[i].name);
}

// Whatever the preset and the number of threads, the report is the same, and the choice fits.
TEST(Presets, SameReportOnAnyNumberOfThreads) {
  for (const Preset& preset : Presets()) {
    SCOPED_TRACE(preset.name);
    const auto one = Planned({.preset = std::string(preset.name), .threads = 1});
    const auto three = Planned({.preset = std::string(preset.name), .threads = 3});
    ASSERT_TRUE(one.ok() && three.ok()) << one.status() << three.status();
    EXPECT_EQ(one->SerializeAsString(), three->SerializeAsString());
    EXPECT_TRUE(ChosenOf(*one).fits());
    EXPECT_GT(ChosenOf(*one).run().iteration_seconds(), 0);
    EXPECT_THAT(PresetReportText(*one), HasSubstr("The preset chooses " + ChosenOf(*one).run().settings()));
  }
}

// The chosen plan compiles and simulates to the figures of the report.
TEST(Presets, TheChoiceSimulatesAsReported) {
  for (const Preset& preset : Presets()) {
    SCOPED_TRACE(preset.name);
    const auto report = Planned({.preset = std::string(preset.name)});
    ASSERT_TRUE(report.ok()) << report.status();
    const PlannedRun& run = ChosenOf(*report).run();
    Recipe recipe = Parse<Recipe>("sequence_length: 64 global_batch_sequences: 16");
    recipe.set_microbatch_sequences(run.microbatch_sequences());
    auto inputs = ResolveInputs(*LoadModel("gpt2-tiny"), recipe, run.plan(), *LoadCluster("dgx-a100-80g"), nullptr);
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    const auto evaluation = Evaluate({.inputs = *inputs});
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_EQ(evaluation->report.iteration_seconds(), run.iteration_seconds());
  }
}

// N >= D: 16 sequences on 4 devices leave at most 4 for each microbatch.
TEST(Presets, ChimeraTakesTheLargestMicrobatchThatFillsThePipeline) {
  const auto report = Planned({.preset = "chimera"});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->plans_size(), 2);
  EXPECT_THAT(report->plans(0).run().settings(), StartsWith("pp=2 dp=2 mbs=4 schedule=chimera"));
  EXPECT_THAT(report->plans(0).figures(), HasSubstr("W=2 D=2 B=4 N=2, C_f=2 C_b=2"));
  EXPECT_THAT(report->plans(1).run().settings(), StartsWith("pp=4 mbs=4 schedule=chimera"));
  EXPECT_THAT(report->plans(1).figures(), HasSubstr("W=1 D=4 B=4 N=4, C_f=4 C_b=6"));
  for (const PresetPlan& plan : report->plans()) {
    EXPECT_GT(plan.modeled_seconds(), 0);
    EXPECT_LE(ChosenOf(*report).modeled_seconds(), plan.modeled_seconds());
  }
}

// With more microbatches than stages, all three ways to scale are simulated.
TEST(Presets, ChimeraTriesAllWaysToScale) {
  const auto report = Planned({.preset = "chimera",
                               .recipe = "sequence_length: 64 global_batch_sequences: 16 microbatch_sequences: 2",
                               .plan = "mesh { axes { name: 'pipe' size: 2 } }"});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->plans_size(), 3);
  EXPECT_THAT(report->plans(1).run().settings(), HasSubstr("scaling=FORWARD_DOUBLING"));
  EXPECT_THAT(report->plans(2).run().settings(), HasSubstr("scaling=BACKWARD_HALVING"));
  for (const PresetPlan& plan : report->plans()) {
    if (!plan.fits()) continue;
    EXPECT_LE(ChosenOf(*report).run().iteration_seconds(), plan.run().iteration_seconds());
  }
}

// With less memory, the preset first takes a smaller microbatch, then recomputation.
TEST(Presets, ChimeraShrinksWhatDoesNotFit) {
  const std::string two = "mesh { axes { name: 'pipe' size: 2 } }";
  const auto all = Planned({.preset = "chimera", .plan = two});
  ASSERT_TRUE(all.ok()) << all.status();
  const int64_t bytes = ChosenOf(*all).run().device_bytes();
  const auto less = Planned({.preset = "chimera", .plan = two, .memory = (bytes >> 20) - 1});
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_LT(ChosenOf(*less).run().device_bytes(), bytes);
  EXPECT_LT(ChosenOf(*less).run().microbatch_sequences(), 4);
}

// The preset takes the first number of ranks that fits.
TEST(Presets, AxonnTakesTheFewestRanksThatFit) {
  const auto all = Planned({.preset = "axonn", .devices = 2});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(ChosenOf(*all).run().settings(), AllOf(StartsWith("dp=2 mbs="), HasSubstr("offload.optimizer=true")));
  const std::string recipe = "sequence_length: 64 global_batch_sequences: 16 microbatch_sequences: 1";
  const auto one = Planned({.preset = "axonn", .devices = 2, .recipe = recipe});
  ASSERT_TRUE(one.ok()) << one.status();
  const int64_t bytes = ChosenOf(*one).run().device_bytes();
  // Buckets are small, so that weights and activations decide.
  const std::string buckets = "offload { optimizer: true bucket_elements: 1000 }";
  const auto small = Planned({.preset = "axonn", .devices = 2, .recipe = recipe, .plan = buckets});
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_LE(ChosenOf(*small).run().device_bytes(), bytes);
  const auto less = Planned({.preset = "axonn",
                             .devices = 2,
                             .recipe = recipe,
                             .plan = buckets,
                             .memory = (ChosenOf(*small).run().device_bytes() >> 20)});
  ASSERT_TRUE(less.ok()) << less.status();
  ASSERT_EQ(less->plans_size(), 2);
  EXPECT_FALSE(less->plans(0).fits());
  EXPECT_THAT(ChosenOf(*less).run().settings(), StartsWith("pp=2 mbs=1 schedule=axonn limit=2"));
}

// Grids come in the order of their modeled time. The preset chooses the fastest that fits.
TEST(Presets, Axonn4dSimulatesTheFirstGrids) {
  const auto report = Planned({.preset = "axonn-4d"});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->plans_size(), 5);
  for (int i = 0; i < report->plans_size(); ++i) {
    EXPECT_THAT(report->plans(i).figures(), StartsWith("rank " + std::to_string(i + 1) + ", collectives "));
    EXPECT_LE(ChosenOf(*report).run().iteration_seconds(), report->plans(i).run().iteration_seconds());
  }
}

// The preset tries all waves of all pipelines, or of the pipeline that the user fixes.
TEST(Presets, HanayoTriesAllWaves) {
  const auto report = Planned({.preset = "hanayo", .model = "gpt2", .plan = "mesh { axes { name: 'pipe' size: 2 } }"});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->plans_size(), 2);
  EXPECT_THAT(report->plans(0).run().settings(), StartsWith("pp=2 dp=2 mbs=4 schedule=hanayo waves=1"));
  EXPECT_THAT(report->plans(1).run().settings(), StartsWith("pp=2 dp=2 mbs=4 schedule=hanayo waves=2"));
}

TEST(Presets, BadInput) {
  EXPECT_THAT(ErrorOf({.preset = "chimeras"}),
              HasSubstr("unknown preset 'chimeras'; nearest: 'chimera'; known: axonn"));
  EXPECT_THAT(ErrorOf({.preset = "hanayo", .devices = 4096}), HasSubstr("cluster 'dgx-a100-80g' has 1024"));
  EXPECT_THAT(ErrorOf({.preset = "chimera", .plan = "mesh { axes { name: 'x' size: 2 } }"}),
              HasSubstr("plan.mesh: preset chimera has no axis 'x' (given size 2); its axes: pipe, data"));
  EXPECT_THAT(ErrorOf({.preset = "hanayo", .plan = "schedule { name: '1f1b' }"}),
              HasSubstr("plan.schedule = '1f1b': preset hanayo chooses the schedule itself"));
  EXPECT_THAT(ErrorOf({.preset = "chimera", .devices = 3}),
              HasSubstr("no number of pipeline ranks is possible; it must be even"));
  EXPECT_THAT(ErrorOf({.preset = "hanayo", .devices = 5}), HasSubstr("no number of pipeline ranks is possible"));
  EXPECT_THAT(ErrorOf({.preset = "axonn-4d", .model = "unet-tiny"}), HasSubstr("is one of images"));
  EXPECT_THAT(ErrorOf({.preset = "axonn-4d",
                       .recipe = "sequence_length: 64 global_batch_sequences: 3",
                       .plan = "mesh { axes { name: 'data' size: 4 } }"}),
              HasSubstr("no grid of 4 devices"));
  EXPECT_THAT(ErrorOf({.preset = "chimera", .memory = 1}), HasSubstr("no plan fits"));
}

// A preset names the figure of the cluster that it needs.
TEST(Presets, FiguresThatTheClusterLacks) {
  Cluster cluster = *LoadCluster("dgx-a100-80g");
  cluster.clear_host();
  EXPECT_THAT(std::string(Planned({.preset = "axonn"}, cluster).status().message()),
              HasSubstr("no host.bytes_per_second, which preset axonn needs"));
  cluster = *LoadCluster("dgx-a100-80g");
  cluster.clear_intra_node();
  cluster.clear_node_links();
  for (const char* preset : {"chimera", "hanayo", "axonn-4d"}) {
    EXPECT_THAT(std::string(Planned({.preset = preset}, cluster).status().message()),
                HasSubstr("cluster.intra_node is missing"))
        << preset;
  }
}

}  // namespace
}  // namespace weft::planner
