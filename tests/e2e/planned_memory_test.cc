// Compares the height of the fullest arena with the simulated maximum of live bytes: at most 2 % more, or 8 % if
// activations are copied to the host and back. Tests GPT-2 124M under plans of all kinds, also with several stages per
// rank whose buffers differ much in size.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

struct Case {
  // Axes of the mesh, as text proto.
  std::string mesh;
  std::string schedule;
  std::string fields;
};

// Maximum of planned bytes over live bytes. The plan has memory for two copies each way at any time; a simulation may
// have fewer copies at once (docs/offload.md).
// On a rank with two stages of a V, what ends with an input half leaves gaps between what ends with a weight half.
constexpr double kMax = 1.02, kMaxWithCopies = 1.08, kMaxOfV = 1.04;

Cluster Node() {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'test' nodes: 2 devices_per_node: 8 nics_per_node: 8 device { name: 'gpu' memory_bytes: 80000000000 "
      "memory_bytes_per_second: 1.5e12 peaks { dtype: FP32 flops_per_second: 1.9e13 } "
      "peaks { dtype: BF16 flops_per_second: 3.1e14 } } intra_node { bytes_per_second: 2e11 latency_seconds: 5e-6 } "
      "inter_node { bytes_per_second: 2e10 latency_seconds: 1e-5 } host { bytes_per_second: 2.5e10 } "
      "host_memory_bytes: 1000000000000",
      &cluster));
  return cluster;
}

absl::StatusOr<SimulationReport> SimulationOf(const Case& c) {
  const absl::StatusOr<ModelGraph> model = ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12})",
      "gpt2");
  if (!model.ok()) return model.status();
  Recipe recipe;
  Plan plan;
  using google::protobuf::TextFormat;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "sequence_length: 1024 global_batch_sequences: 32 microbatch_sequences: 2 dropout: 0.1 seed: 1 steps: 10 lr { "
      "peak: 0.01 } clip_norm: 1 adamw {}",
      &recipe));
  EXPECT_TRUE(TextFormat::ParseFromString(
      absl::StrCat("mesh { ", c.mesh, " } schedule { name: '", c.schedule, "' } precision { compute: BF16 ",
                   "params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32 } ", c.fields),
      &plan))
      << c.fields;
  const absl::StatusOr<Program> program = planner::CompilePlan(*model, recipe, plan, Node(), {});
  if (!program.ok()) return program.status();
  const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(*program, Node(), {});
  if (!simulation.ok()) return simulation.status();
  return simulation->report;
}

std::vector<Case> Cases() {
  const auto axis = [](const char* name, int size) {
    return absl::StrCat("axes { name: '", name, "' size: ", size, " } ");
  };
  const std::string paper = "attention: MATERIALIZED dropout_masks: true ";
  const std::string copied = "offload { activation_layers: 2 } ";
  return {
      {axis("pipe", 1), "1f1b", ""},
      {axis("pipe", 1), "1f1b", paper},
      {axis("pipe", 1), "1f1b", paper + "recompute { mode: SELECTIVE }"},
      {axis("pipe", 1), "1f1b", "recompute { mode: FULL }"},
      {axis("pipe", 4), "1f1b", ""},
      {axis("pipe", 4), "1f1b", "recompute { mode: FULL }"},
      {axis("pipe", 4), "gpipe", "recompute { mode: INTERVAL interval: 2 }"},
      // Stages of several sizes on one rank: their activations use the same memory at different times.
      {axis("pipe", 4), "interleaved", ""},
      {axis("pipe", 6), "interleaved", ""},
      {axis("pipe", 4), "interleaved-zb", ""},
      {axis("pipe", 6), "interleaved-zb", ""},
      {axis("pipe", 4), "looped-bfs", ""},
      {axis("pipe", 4), "hanayo", ""},
      {axis("pipe", 4), "v-half", ""},
      {axis("pipe", 4), "v-min", ""},
      {axis("pipe", 4), "dualpipe", ""},
      {axis("pipe", 4), "dualpipev", ""},
      {axis("pipe", 6), "zb-v", ""},
      {axis("pipe", 4), "zb-h1", ""},
      {axis("pipe", 4), "zb-v", ""},
      {axis("pipe", 2), "chimera", ""},
      {axis("data", 2) + axis("pipe", 4), "1f1b", ""},
      {axis("x", 2) + axis("pipe", 4), "1f1b", "sequence_parallel: true " + paper},
      {axis("x", 4), "1f1b", paper + "recompute { mode: SELECTIVE }"},
      {axis("x", 2) + axis("y", 2) + axis("z", 2), "1f1b", ""},
      {axis("data", 4), "1f1b", "zero { stage: 1 }"},
      {axis("data", 4), "1f1b", "zero { stage: 2 }"},
      {axis("data", 4), "1f1b", "zero { stage: 3 }"},
      {axis("data", 2) + axis("pipe", 4), "1f1b", "offload { optimizer: true bucket_elements: 3000000 }"},
      {axis("pipe", 4), "gpipe", "offload { activation_layers: 2 }"},
      // Plans with copies to the host, most of them also with collectives inside segments.
      {axis("x", 2) + axis("pipe", 4), "gpipe", copied},
      {axis("x", 2) + axis("pipe", 4), "1f1b", copied},
      {axis("x", 2) + axis("pipe", 4), "1f1b", copied + "sequence_parallel: true"},
      {axis("x", 2) + axis("pipe", 2), "interleaved", copied},
      {axis("x", 2) + axis("pipe", 2), "zb-v", copied},
      {axis("x", 2) + axis("pipe", 2), "chimera", copied},
      {axis("x", 2) + axis("pipe", 4), "1f1b", copied + "overlap { all_reduce: false }"},
      {axis("z", 2) + axis("pipe", 4), "1f1b", copied},
      {axis("z", 2) + axis("pipe", 4), "1f1b", copied + "overlap { reduce_scatter: false all_gather: false }"},
      {axis("z", 2) + axis("pipe", 4), "1f1b", copied + "overlap { gathered_cache_bytes: 40000000 }"},
      {axis("data", 2) + axis("pipe", 4), "1f1b", copied + "zero { stage: 3 }"},
      {axis("x", 2) + axis("data", 2) + axis("pipe", 2), "interleaved", copied + "zero { stage: 1 }"},
      {axis("x", 2) + axis("data", 2) + axis("pipe", 2), "1f1b",
       "zero { stage: 3 } offload { optimizer: true bucket_elements: 3000000 activation_layers: 2 }"},
      {axis("x", 2) + axis("pipe", 4), "1f1b", "offload { optimizer: true bucket_elements: 3000000 }"},
      {axis("data", 4), "1f1b", "zero { stage: 3 } offload { optimizer: true bucket_elements: 3000000 }"},
      {axis("data", 4), "1f1b", "zero { stage: 1 } offload { optimizer: true bucket_elements: 3000000 }"},
  };
}

class PlannedMemoryTest : public testing::TestWithParam<size_t> {};

TEST_P(PlannedMemoryTest, IsCloseToWhatIsLive) {
  const Case c = Cases()[GetParam()];
  const std::string what = absl::StrCat(c.mesh, c.schedule, " ", c.fields);
  const absl::StatusOr<SimulationReport> report = SimulationOf(c);
  ASSERT_TRUE(report.ok()) << what << ": " << report.status();
  for (const auto& rank : report->per_rank()) {
    EXPECT_GE(rank.planned_bytes(), rank.live_peak_bytes()) << what << " rank " << rank.rank();
  }
  const double ratio = static_cast<double>(report->planned_bytes()) / static_cast<double>(report->live_peak_bytes());
  const bool copies = c.fields.find("activation_layers") != std::string::npos;
  EXPECT_LE(ratio, copies                 ? kMaxWithCopies
                   : c.schedule == "zb-v" ? kMaxOfV
                                          : kMax)
      << what << ": " << report->planned_bytes() << " planned, " << report->live_peak_bytes() << " live";
  RecordProperty("planned_over_live", absl::StrCat(ratio));
}

INSTANTIATE_TEST_SUITE_P(Plans, PlannedMemoryTest, testing::Range<size_t>(0, Cases().size()));

}  // namespace
}  // namespace weft
