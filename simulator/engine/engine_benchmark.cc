// Measures the expanded steps per second of the engine on one core, with memory tracking, which is always on.
//
//   bazel run -c opt //simulator/engine:engine_benchmark
//
// The program is a pipeline of 8 ranks with 64 microbatches and segments of 240 steps, the size of GPT-2 124M's.
// Single: every step is an event. Joined: steps that nothing can interrupt share one event, as in `weft simulate`.
// Slots: only 4 of the 8 devices of a node compute at a time, so every step must get a slot first.
//
// Tensor: the shape of GPT-3 175B on 1024 ranks (tensor 8, data 16, pipe 8; Narayanan et al. 2021, arXiv:2104.04473):
// 96 layers, 16 microbatches, two blocking all-reduces over the tensor axis in each layer forward and backward, an
// all-reduce of gradients over data at the end. Folded: ranks that behave alike are found and simulated once. Loaded:
// collectives slow down the steps beside them.
//
// FlowTensor: Tensor on the network "flow" (rule P12), where every transfer and collective is one flow over links of
// its own and over shared links. FlowTensorFolded folds ranks and flows. FlowRing: one ring all-reduce of 64 MiB over
// 1024 ranks on 128 nodes of 8; each iteration makes the links, routes and view again.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/fold.h"
#include "simulator/network/network_model.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

Program LargeProgram() {
  Program program = GPipeProgram(/*ranks=*/8, /*microbatches=*/64, /*bytes=*/1 << 20);
  for (Segment& segment : *program.mutable_segments()) {
    for (int i = 1; i < 240; ++i) segment.add_steps()->set_name("step");
  }
  return program;
}

Collective OverAxis(const std::string& axis, Purpose purpose) {
  Collective collective;
  collective.mutable_group()->add_axes()->set_axis(axis);
  collective.set_purpose(purpose);
  collective.set_algorithm("ring");
  return collective;
}

// Replaces the segment's steps by `layers` layers. A layer has `compute` steps in two halves; a blocking all-reduce
// over x follows each half.
void AddLayers(Segment& segment, int layers, int compute) {
  segment.clear_steps();
  segment.add_values()->set_dtype(BF16);
  segment.mutable_values(0)->add_shape(int64_t{2048} * 12288);
  for (int half = 0; half < 2 * layers; ++half) {
    for (int i = 0; i < compute / 2; ++i) {
      Step* step = segment.add_steps();
      step->set_name("step");
      if (i == 0 && half > 0) step->add_deps(segment.steps_size() - 2);
    }
    Step* reduce = segment.add_steps();
    reduce->set_name("all_reduce");
    reduce->set_kernel(GROUP_ALL_REDUCE);
    reduce->set_stream(COLLECTIVE);
    reduce->add_deps(segment.steps_size() - 2);
    reduce->add_inputs(0);
    reduce->add_outputs(0);
    *reduce->mutable_collective() = OverAxis("x", TENSOR);
  }
}

Program TensorProgram() {
  Program program = GPipeProgram(/*ranks=*/8, /*microbatches=*/16, /*bytes=*/1 << 20);
  const MeshAxis pipe = program.mesh().axes(0);
  program.mutable_mesh()->clear_axes();
  for (const auto& [name, size] : {std::pair<const char*, int64_t>{"x", 8}, {"data", 16}}) {
    program.mutable_mesh()->add_axes()->set_name(name);
    program.mutable_mesh()->mutable_axes(program.mesh().axes_size() - 1)->set_size(size);
  }
  *program.mutable_mesh()->add_axes() = pipe;
  AddLayers(*program.mutable_segments(0), /*layers=*/12, /*compute=*/12);
  AddLayers(*program.mutable_segments(1), /*layers=*/12, /*compute=*/24);
  for (Template& t : *program.mutable_templates()) {
    const Collective over = OverAxis("data", GRADIENT_SYNC);
    Action action;
    action.set_id(t.body(t.body_size() - 1).id() + 1);
    action.set_kind(ALL_REDUCE);
    action.add_deps()->set_action(action.id() - 1);
    action.add_sources(0);
    action.add_destinations(0);
    *action.mutable_group() = over.group();
    action.set_purpose(over.purpose());
    action.set_algorithm(over.algorithm());
    *t.add_body() = action;
  }
  return program;
}

Cluster BenchmarkCluster() {
  Cluster cluster;
  cluster.set_nodes(128);
  cluster.set_devices_per_node(8);
  cluster.set_nics_per_node(8);
  cluster.mutable_intra_node()->set_bytes_per_second(2e11);
  cluster.mutable_intra_node()->set_latency_seconds(3e-6);
  cluster.mutable_inter_node()->set_bytes_per_second(2.5e10);
  cluster.mutable_inter_node()->set_latency_seconds(5e-6);
  return cluster;
}

struct Setting {
  bool join_steps = true;
  int slots = 0;
  bool fold = false;
  // If true, collectives slow down the compute steps beside them.
  bool load = false;
  const char* network = "analytic";
};

void RunBenchmark(benchmark::State& state, const Program& program, const Setting& setting) {
  const Cluster cluster = BenchmarkCluster();
  const std::unique_ptr<NetworkModel> network = (*FindNetworkModel(setting.network))->make(program.mesh(), cluster);
  const StepCostsFn costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    const int64_t cost = 20'000'000 + 1'000'000 * (use.step % 7) * (use.kind == BACKWARD ? 2 : 1);
    const int64_t more = setting.load ? cost / 8 : 0;
    return LoadTimes{Time{cost}, Time{cost + more}, Time{cost + 2 * more}};
  };
  const auto view = BuildProgramView(program, costs, {.join_steps = setting.join_steps});
  int64_t steps = 0, simulated = 0;
  for (auto _ : state) {
    const auto all = LinkRanks(*view);
    std::optional<RankLinks> folded;
    if (setting.fold) folded = FoldRanks(*view, *network, *all);
    const auto result = RunEngine(*view, folded ? *folded : *all, *network,
                                  {.devices_per_node = 8, .compute_slots_per_node = setting.slots});
    if (!result.ok()) state.SkipWithError(result.status().ToString().c_str());
    steps += result->steps;
    simulated = static_cast<int64_t>(folded ? folded->ranks.size() : all->ranks.size());
    benchmark::DoNotOptimize(result->makespan);
  }
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
  state.counters["ranks"] = static_cast<double>(simulated);
}

void BM_Single(benchmark::State& state) { RunBenchmark(state, LargeProgram(), {.join_steps = false}); }
void BM_Joined(benchmark::State& state) { RunBenchmark(state, LargeProgram(), {}); }
void BM_Slots(benchmark::State& state) { RunBenchmark(state, LargeProgram(), {.join_steps = false, .slots = 4}); }

void BM_Tensor(benchmark::State& state) { RunBenchmark(state, TensorProgram(), {}); }
void BM_TensorSingle(benchmark::State& state) { RunBenchmark(state, TensorProgram(), {.join_steps = false}); }
void BM_TensorLoaded(benchmark::State& state) { RunBenchmark(state, TensorProgram(), {.load = true}); }
void BM_TensorFolded(benchmark::State& state) { RunBenchmark(state, TensorProgram(), {.fold = true}); }

void BM_FlowTensor(benchmark::State& state) { RunBenchmark(state, TensorProgram(), {.network = "flow"}); }

void BM_FlowTensorFolded(benchmark::State& state) {
  RunBenchmark(state, TensorProgram(), {.fold = true, .network = "flow"});
}

void BM_FlowRing(benchmark::State& state) {
  Program program;
  program.mutable_mesh()->add_axes()->set_name("data");
  program.mutable_mesh()->mutable_axes(0)->set_size(1024);
  Template* t = program.add_templates();
  Buffer* buffer = t->add_buffers();
  buffer->set_dtype(FP32);
  buffer->set_bytes(int64_t{64} << 20);
  buffer->add_shape(int64_t{16} << 20);
  buffer->set_persistent(true);
  const Collective over = OverAxis("data", GRADIENT_SYNC);
  Action* action = t->add_body();
  action->set_kind(ALL_REDUCE);
  action->add_sources(0);
  action->add_destinations(0);
  *action->mutable_group() = over.group();
  action->set_purpose(over.purpose());
  action->set_algorithm(over.algorithm());
  const Cluster cluster = BenchmarkCluster();
  const auto duration = [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; };
  double simulated = 0;
  for (auto _ : state) {
    const std::unique_ptr<NetworkModel> network = (*FindNetworkModel("flow"))->make(program.mesh(), cluster);
    const auto view = BuildProgramView(program, duration, {});
    const auto result = RunEngine(*view, *network, {.devices_per_node = 8});
    if (!result.ok()) state.SkipWithError(result.status().ToString().c_str());
    simulated = ToSeconds(result->makespan);
  }
  state.counters["simulated_seconds"] = simulated;
}

// Measures the work that every new program needs once before it is simulated.
void BM_View(benchmark::State& state) {
  const Program program = LargeProgram();
  const auto duration = [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{1}; };
  for (auto _ : state) benchmark::DoNotOptimize(BuildProgramView(program, duration, {}));
}

BENCHMARK(BM_Single)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Joined)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Slots)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Tensor)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TensorSingle)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TensorLoaded)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_TensorFolded)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FlowTensor)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FlowTensorFolded)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FlowRing)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_View)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::sim
