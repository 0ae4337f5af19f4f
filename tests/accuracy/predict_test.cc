#include "tests/accuracy/predict.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::Contains;

Measurement SmallRun() {
  Measurement run;
  run.id = "run";
  run.family = "Megatron-Core";
  run.model.kind = "dense-gpt";
  run.model.layers = 8;
  run.model.hidden = 512;
  run.model.heads = 8;
  run.model.ffn_hidden = 2048;
  run.model.vocabulary = 1024;
  run.model.sequence = 256;
  run.machine.gpu = "A100";
  run.machine.gpus = 8;
  run.plan.tp = 2;
  run.plan.pp = 2;
  run.plan.dp = 2;
  run.plan.zero_stage = 1;
  run.plan.micro_batch = 1;
  run.plan.global_batch = 48;
  run.plan.schedule = "1f1b";
  run.plan.recompute = "none";
  run.plan.precision = "bf16";
  return run;
}

struct Known {
  Machines machines;
  Runtimes runtimes;
};

Known Load() {
  const absl::StatusOr<Machines> machines = LoadMachines();
  const absl::StatusOr<Runtimes> runtimes = LoadRuntimes();
  EXPECT_TRUE(machines.ok()) << machines.status();
  EXPECT_TRUE(runtimes.ok()) << runtimes.status();
  return {machines.value_or(Machines()), runtimes.value_or(Runtimes())};
}

SimulationReport Predicted(const Measurement& run, bool whole) {
  const Known known = Load();
  const absl::StatusOr<CompiledRun> compiled = CompileRun(run, known.machines, known.runtimes, "tiles", whole);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return {};
  EXPECT_EQ(compiled->longer.has_value(), !whole);
  const auto report = SimulateRun(*compiled, compiled->cluster, compiled->runtime, "tiles", "analytic");
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(SimulationReport());
}

TEST(Predict, FewMicrobatchesTellWhatManyTake) {
  for (const char* schedule : {"1f1b", "interleaved-1f1b", "zero-bubble ZB-1p", "zero-bubble ZB-2p"}) {
    Measurement run = SmallRun();
    run.plan.schedule = schedule;
    const SimulationReport whole = Predicted(run, true), shorter = Predicted(run, false);
    EXPECT_NEAR(shorter.iteration_seconds() / whole.iteration_seconds(), 1, 0.005) << schedule;
    EXPECT_NEAR(shorter.per_rank(0).busy_seconds() / whole.per_rank(0).busy_seconds(), 1, 0.005) << schedule;
    EXPECT_EQ(shorter.runtime(), "megatron-core");
  }
}

TEST(Predict, ShorterRunsAreShorter) {
  EXPECT_EQ(ShorterRuns(6, 1, "1f1b"), std::nullopt);
  EXPECT_EQ(ShorterRuns(8, 1, "1f1b"), std::make_pair(int64_t{3}, int64_t{4}));
  EXPECT_EQ(ShorterRuns(192, 8, "interleaved"), std::make_pair(int64_t{16}, int64_t{24}));
  EXPECT_EQ(ShorterRuns(40, 8, "interleaved"), std::nullopt);
  EXPECT_EQ(ShorterRuns(64, 8, "zb-h2"), std::make_pair(int64_t{24}, int64_t{32}));
  EXPECT_EQ(ShorterRuns(64, 8, "chimera"), std::nullopt);
}

TEST(Predict, SwitchesOfARowReachItsRuntime) {
  const Known known = Load();
  Measurement run = SmallRun();
  run.extra["tp_overlap"] = "false";
  const absl::StatusOr<CompiledRun> off = CompileRun(run, known.machines, known.runtimes, "tiles");
  ASSERT_TRUE(off.ok()) << off.status();
  EXPECT_EQ(off->runtime.tensor_pieces(), 0);
  run.extra["tp_overlap"] = "true";
  const absl::StatusOr<CompiledRun> on = CompileRun(run, known.machines, known.runtimes, "tiles");
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_EQ(on->runtime.tensor_pieces(), 4);
}

// NVIDIA's FP8 recipes gather weights in 8 bits, except with MXFP8.
TEST(Predict, WeightsInEightBitsAreGatheredSo) {
  const Known known = Load();
  Measurement run = SmallRun();
  run.family = "NVIDIA NeMo";
  run.machine.gpu = "H100-SXM5-80GB";
  const auto gathered = [&](const char* precision) {
    run.plan.precision = precision;
    const absl::StatusOr<CompiledRun> made = CompileRun(run, known.machines, known.runtimes, "tiles");
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->runtime.gathered_weight_bytes() : -1;
  };
  EXPECT_EQ(gathered("bf16"), 0);
  EXPECT_EQ(gathered("fp8"), 0.5);
  EXPECT_EQ(gathered("mxfp8"), 0);
}

TEST(Predict, StepsOfAnAblationAddUp) {
  const Known known = Load();
  Measurement run = SmallRun();
  run.family = "MegaScale";
  const auto at = [&](const char* step) {
    run.extra["cumulative_step"] = step;
    absl::StatusOr<CompiledRun> made = CompileRun(run, known.machines, known.runtimes, "tiles");
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->runtime : Runtime();
  };
  EXPECT_EQ(at("3").tensor_pieces(), 0);
  EXPECT_EQ(at("3").plan().transfer_placement(), DEFERRED);
  EXPECT_GT(at("4").tensor_pieces(), 1);
  EXPECT_EQ(at("5").plan().transfer_placement(), EARLY);
  EXPECT_FALSE(at("5").sums_under_backward());
  EXPECT_TRUE(at("6").sums_under_backward());
  EXPECT_GT(at("7").kernels_size(), at("6").kernels_size());
}

// 3 and 6 replicas do not divide the matrices of the model. Each replica still has an equal share of the states, as if
// the states were one flat buffer.
TEST(Predict, StatesAreCutOverAnyNumberOfReplicas) {
  const Known known = Load();
  const auto states = [&](int replicas) {
    Measurement run = SmallRun();
    run.machine.gpus = 4 * replicas;
    run.plan.dp = replicas;
    const absl::StatusOr<CompiledRun> made = CompileRun(run, known.machines, known.runtimes, "tiles");
    EXPECT_TRUE(made.ok()) << made.status();
    int64_t bytes = 0;
    if (!made.ok()) return bytes;
    for (const Buffer& buffer : made->program.templates(0).buffers()) {
      if (buffer.class_() == OPTIMIZER) bytes += buffer.bytes();
    }
    return bytes;
  };
  const auto two = static_cast<double>(states(2));
  // The sharded states are inversely proportional to the number of replicas, except for rounding up.
  EXPECT_NEAR(static_cast<double>(states(3)), two * 2 / 3, 0.01 * two);
  EXPECT_NEAR(static_cast<double>(states(6)), two / 3, 0.01 * two);
}

// Runs on Jean Zay keep the network of the catalog, so that predictions in the error table use the same network as
// `weft simulate --cluster=jean-zay-v100`.
TEST(Predict, RunsOfJeanZayHaveTheNetworkOfTheCatalog) {
  const Known known = Load();
  const Cluster& catalog = known.machines.at("jean-zay-v100");
  Measurement run = SmallRun();
  run.machine.gpu = "V100-SXM2-32GB";
  run.machine.gpus = 64;
  run.machine.gpus_per_node = 4;
  run.machine.inter_node_link = "Omni-Path (nominal 400 Gb/s per node; measured all-reduce 23-55 Gb/s)";
  const absl::StatusOr<Cluster> cluster = MachineOfRun(run, catalog);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->nics_per_node(), catalog.nics_per_node());
  EXPECT_DOUBLE_EQ(cluster->inter_node().bytes_per_second(), catalog.inter_node().bytes_per_second());
}

TEST(Predict, HostBehindNvlinkHoldsWhatDoesNotFit) {
  const Known known = Load();
  Measurement run = SmallRun();
  run.plan.recompute.clear();
  // Activations take 34 bytes for each of 2^24 elements of a layer, halved by sharding, for four layers and two
  // microbatches: 2 GB.
  run.model.sequence = 1024;
  run.plan.micro_batch = 32;
  run.plan.global_batch = 256;
  const auto assumed = [&](const char* gpu) {
    run.machine.gpu = gpu;
    const absl::StatusOr<CompiledRun> compiled = CompileRun(run, known.machines, known.runtimes, "tiles", true);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return compiled.ok() ? compiled->assumptions : std::vector<std::string>();
  };
  EXPECT_THAT(assumed("GB200"), Contains("no recompute, which fits"));
  EXPECT_THAT(assumed("GB200 with 3 GB"), Contains("activations that do not fit in the host's memory"));
  EXPECT_THAT(assumed("B200 with 3 GB"), Contains("as many layers recomputed as must be to fit"));
  // If the source states that nothing is offloaded, layers are recomputed instead.
  run.plan.offload = "none";
  EXPECT_THAT(assumed("GB200 with 3 GB"), Contains("as many layers recomputed as must be to fit"));
}

}  // namespace
}  // namespace weft
