// Tests which durations guide the compiler's choices: the durations of the requested cost model, for the shapes of the
// steps.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/models/import_hf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernel_key.h"
#include "planner/compile.h"
#include "simulator/cost/cost_model.h"
#include "simulator/simulate.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

constexpr int kStages = 2;

// The head is so large that no other step has a similar shape.
ModelGraph Model() {
  auto graph = ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 5000, "n_positions": 16, "n_embd": 16, "n_head": 2, "n_layer": 8})",
      "tiny");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

Cluster MakeCluster(const std::string& device) {
  return Parse<Cluster>(absl::StrCat(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e12
             peaks { dtype: FP32 flops_per_second: 1e13 } peaks { dtype: BF16 flops_per_second: 1e14 } )",
                                     device, R"( }
    intra_node { bytes_per_second: 1e9 latency_seconds: 1e-5 })"));
}

constexpr char kTiles[] = R"(tiles { multiprocessors: 4 tiles { rows: 64 columns: 64 fraction: 0.5 } half_depth: 100
                             attention_fraction: 0.1 attention_backward_fraction: 0.1 attention_rows: 64
                             memory_fraction: 0.5 half_bytes: 100000 })";

absl::StatusOr<Program> Compiled(const Cluster& cluster, const std::string& cost, const std::string& plan = "",
                                 std::vector<std::string>* notes = nullptr) {
  CompileOptions options;
  options.cost = cost;
  options.evaluation = false;
  options.notes = notes;
  return CompilePlan(Model(), Parse<Recipe>("sequence_length: 16 global_batch_sequences: 8 microbatch_sequences: 1"),
                     Parse<Plan>(absl::StrCat("mesh { axes { name: 'pipe' size: ", kStages, " } } ", plan)), cluster,
                     options);
}

// The number of layers with attention that each stage computes.
std::vector<int> Layers(const Program& program) {
  std::vector<int> layers;
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      if (action.kind() != FORWARD) continue;
      layers.push_back(0);
      for (const Step& step : program.segments(action.segment()).steps()) layers.back() += step.kernel() == ATTENTION;
      break;
    }
  }
  return layers;
}

// The kernel key of the first matrix product in the first layer.
std::string KeyOfLayers(const Program& program) {
  for (const Action& action : program.templates(0).body()) {
    if (action.kind() != FORWARD) continue;
    const Segment& segment = program.segments(action.segment());
    for (const Step& step : segment.steps()) {
      if (step.kernel() == MATMUL) return kernels::KernelKey(segment, step);
    }
  }
  return "";
}

// The note of FASTEST gives the simulated time of each choice. The time that it gives for the chosen one equals the
// simulated time of the program.
TEST(CompileCost, PlansAreSimulatedWithTheModelThatIsAskedFor) {
  const Cluster cluster = MakeCluster(kTiles);
  std::vector<std::string> seconds;
  for (const std::string cost : {"roofline", "tiles"}) {
    std::vector<std::string> notes;
    const auto program = Compiled(cluster, cost, "transfer_placement: FASTEST", &notes);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto simulation = sim::Simulate(*program, cluster, {.cost = cost});
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    seconds.push_back(absl::StrFormat("%.6g s", simulation->report.iteration_seconds()));
    EXPECT_THAT(notes,
                testing::Contains(testing::AllOf(HasSubstr("FASTEST: transfers are "), HasSubstr(seconds.back()))));
  }
  EXPECT_NE(seconds[0], seconds[1]);
}

// If `weft calibrate` measured a shape, that time is used to balance stages. According to the device's figures, the
// head takes as long as all layers together. If a measurement says that the first product of a layer takes a second,
// the head takes next to nothing compared with the layers.
TEST(CompileCost, StagesAreBalancedByWhatWasMeasuredOfAShape) {
  const auto plain = Compiled(MakeCluster(""), "roofline");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(Layers(*plain), (std::vector<int>{8, 0}));
  const std::string key = KeyOfLayers(*plain);
  const auto slow = Compiled(
      MakeCluster(absl::StrCat("kernel_rates { kernel: '", key, "' dtype: BF16 overhead_seconds: 1 }")), "roofline");
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(Layers(*slow), (std::vector<int>{4, 4})) << key;
  // A measurement of a shape that is unlike every shape of the model changes nothing.
  const auto other = Compiled(
      MakeCluster("kernel_rates { kernel: 'MATMUL bf16*2>bf16 tb 16384x16384x16384' dtype: BF16 overhead_seconds: 1 }"),
      "roofline");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(Layers(*other), (std::vector<int>{8, 0}));
}

// With cost model "tiles", a product that fills only part of one wave costs as much as a whole wave. So layers with few
// columns cost more, relative to the head, than their flops suggest.
TEST(CompileCost, StagesAreBalancedByShapes) {
  const Cluster cluster = MakeCluster(kTiles);
  const auto roofline = Compiled(cluster, "roofline"), tiles = Compiled(cluster, "tiles");
  ASSERT_TRUE(roofline.ok() && tiles.ok()) << roofline.status() << tiles.status();
  EXPECT_NE(Layers(*roofline), Layers(*tiles));
  // Compiling again gives the same bytes.
  EXPECT_EQ(Compiled(cluster, "tiles")->SerializeAsString(), tiles->SerializeAsString());
}

TEST(CompileCost, Refused) {
  const Cluster bare = MakeCluster("");
  const absl::Status unknown = Compiled(bare, "tile").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), testing::AllOf(HasSubstr("'tile'"), HasSubstr("'tiles'")));
  const absl::Status unit = Compiled(bare, "unit").status();
  EXPECT_EQ(unit.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unit.message()),
              HasSubstr(absl::StrCat("allowed: ", absl::StrJoin(sim::DeviceCostModels(), ", "))));
  const absl::Status missing = Compiled(bare, "tiles").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("device.tiles"));
}

TEST(CompileCost, LevelsOfTheIr) {
  const Cluster cluster = MakeCluster(kTiles);
  const auto emitted = [&](const std::string& cost) {
    return EmitIr(Model(), Parse<Recipe>("sequence_length: 16 global_batch_sequences: 8 microbatch_sequences: 1"),
                  Parse<Plan>("mesh { axes { name: 'pipe' size: 2 } }"), cluster, "rank", cost);
  };
  ASSERT_TRUE(emitted("tiles").ok());
  EXPECT_NE(*emitted("tiles"), *emitted("roofline"));
  EXPECT_EQ(emitted("unit").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace weft::planner
