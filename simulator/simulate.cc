#include "simulator/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/device_load.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/fold.h"
#include "simulator/metrics/bounds.h"
#include "simulator/metrics/critical_path.h"
#include "simulator/metrics/metrics.h"
#include "simulator/metrics/tightest_rank.h"
#include "simulator/network/network_model.h"
#include "simulator/network/placement.h"
#include "simulator/own_runtime.h"
#include "simulator/program/device_classes.h"
#include "simulator/program/program_view.h"
#include "simulator/program/rank_links.h"
#include "simulator/runtime/as_run_by.h"
#include "simulator/runtime/host_transport.h"
#include "simulator/runtime/kernel_form.h"
#include "simulator/runtime/runtime_memory.h"
#include "simulator/runtime/runtime_network.h"
#include "simulator/runtime/runtime_steps.h"
#include "simulator/simulate_runs.h"

namespace weft::sim {
namespace {

// For each segment, the number of microbatches that a forward with this segment computes at once. The segment's shapes
// are for all of them together.
std::vector<int32_t> SegmentWidths(const Program& program) {
  std::vector<int32_t> widths(program.segments_size(), 1);
  for (const Template& t : program.templates()) {
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        if (action.width() <= 1 || action.kind() == SEND || action.kind() == RECV) continue;
        widths[action.segment()] = std::max(widths[action.segment()], action.width());
      }
    }
  }
  return widths;
}

// For each segment, its first step on the compute stream.
std::vector<int> FirstComputeSteps(const Program& program) {
  std::vector<int> first(program.segments_size(), 0);
  for (int i = 0; i < program.segments_size(); ++i) {
    const Segment& segment = program.segments(i);
    while (first[i] < segment.steps_size() && segment.steps(first[i]).stream() != COMPUTE) ++first[i];
  }
  return first;
}

// Unit costs are for one microbatch on all stages of a rank. Returns the cost of one stage.
Time CostPerStage(Time cost, int64_t ranks, int64_t stages) {
  if (stages <= 0 || ranks == stages) return cost;
  const __int128 scaled = (static_cast<__int128>(cost.ps) * ranks + stages - 1) / stages;
  return Time{static_cast<int64_t>(std::min<__int128>(scaled, int64_t{1} << 62))};
}

Time Times(Time cost, int64_t factor) {
  return Time{cost.ps > (int64_t{1} << 62) / factor ? int64_t{1} << 62 : cost.ps * factor};
}

CostOptions CostPerStage(CostOptions options, const Program& program) {
  const int64_t ranks = std::max<int64_t>(1, AxisSize(program.mesh(), "pipe"));
  for (Time* cost : {&options.unit_forward, &options.unit_backward, &options.unit_weight, &options.unit_pair}) {
    *cost = CostPerStage(*cost, ranks, program.stages());
  }
  return options;
}

// For each kind of devices, the cluster with devices of that kind only.
std::vector<Cluster> ClustersOf(const DeviceClasses& devices, const Cluster& cluster) {
  std::vector<Cluster> clusters(devices.kinds.size(), cluster);
  for (size_t kind = 0; kind < clusters.size(); ++kind) *clusters[kind].mutable_device() = *devices.kinds[kind];
  return clusters;
}

std::vector<int64_t> NodesOf(const RankPlacement& placement) {
  std::vector<int64_t> nodes;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) nodes.push_back(placement.NodeOf(rank));
  return nodes;
}

// With the cost "unit" nothing is joined, because its costs are for schedules and it has no launches.
std::vector<bool> JoinsOnDevices(const RuntimeSteps& steps, const DeviceClasses& devices, const std::string& cost) {
  std::vector<bool> joins;
  for (const Device* device : devices.kinds) joins.push_back(KnowsDevice(cost) && steps.Joins(*device));
  return joins;
}

std::vector<int64_t> ArenasOf(const Program& program) {
  std::vector<int64_t> arenas;
  for (const Template& t : program.templates()) arenas.push_back(t.device_arena_bytes());
  return arenas;
}

// `of_templates` has a value for each template of the program. Returns these values for the templates of the view,
// which has a template of the program several times if its ranks are on several kinds of devices.
std::vector<int64_t> ValuesByView(const ProgramView& view, const std::vector<int64_t>& of_templates) {
  absl::flat_hash_map<const Template*, int64_t> of;
  for (int t = 0; t < view.program->templates_size(); ++t) of[&view.program->templates(t)] = of_templates[t];
  std::vector<int64_t> all;
  for (const TemplateView& t : view.templates) all.push_back(of.at(t.proto));
  return all;
}

bool SlotsLimit(const Cluster& cluster, const RankPlacement& placement) {
  return cluster.compute_slots_per_node() > 0 && cluster.compute_slots_per_node() < placement.devices_per_node();
}

// Returns a function that gives the costs of a step on a kind of devices, by the number of collectives that run beside
// it. `program`, `devices` and `steps` must outlive the result.
StepCostsFn CostsOfSteps(const Program& program, const Cluster& cluster, const DeviceClasses& devices,
                         const CostOptions& unit_costs, RuntimeSteps& steps) {
  return [&program, &steps, clusters = ClustersOf(devices, cluster), widths = SegmentWidths(program),
          first_compute = FirstComputeSteps(program),
          cost_options = CostPerStage(unit_costs, program)](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    const Cluster& own_cluster = clusters[use.device];
    const bool computes = program.segments(use.segment).steps(use.step).stream() == COMPUTE;
    CostOptions wide = cost_options;
    wide.unit_forward = Times(wide.unit_forward, widths[use.segment]);
    LoadTimes times;
    for (; wide.collectives < kLoads; ++wide.collectives) {
      Time& time = times[wide.collectives];
      time = times[0];
      if (wide.collectives > 0 && !(computes && steps.LoadMatters(own_cluster.device()))) continue;
      WEFT_ASSIGN_OR_RETURN(
          time, steps.Cost({use.segment, use.step, use.kind, use.step - first_compute[use.segment], use.ranges},
                           own_cluster, wide));
    }
    return times;
  };
}

absl::StatusOr<ProgramView> ViewOf(const Program& program, const Cluster& cluster, const SimulateOptions& options,
                                   const Runtime& runtime, const RankPlacement& placement,
                                   const DeviceClasses& devices) {
  WEFT_ASSIGN_OR_RETURN(const CostModelEntry* cost, FindCostModel(options.cost));
  for (const Device* device : devices.kinds) WEFT_RETURN_IF_ERROR(CheckForms(runtime, *device, program));
  RuntimeSteps steps(program, runtime, cost->cost);
  WEFT_ASSIGN_OR_RETURN(ProgramView view,
                        BuildProgramView(program, CostsOfSteps(program, cluster, devices, options.cost_options, steps),
                                         {.join_steps = !SlotsLimit(cluster, placement),
                                          .exceeded = options.exceeded,
                                          .communicators_by_stage = runtime.communicators_by_stage(),
                                          .joins_on_device = JoinsOnDevices(steps, devices, options.cost),
                                          .device_of_rank = devices.kind_of_rank,
                                          .speed_of_rank = devices.speed_of_rank}));
  if (options.trace) WEFT_RETURN_IF_ERROR(CheckTraceSize(view, options.trace_repetitions));
  if (options.explain) {
    if (absl::Status status = CheckTraceSize(view, 1); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("to explain a run, weft must trace it, and ", status.message()));
    }
  }
  return view;
}

// Returns the engine's options for one repetition that runs alone.
EngineOptions IsolatedOptions(const Cluster& cluster, const SimulateOptions& options, const RankPlacement& placement) {
  return {.repetitions = 1,
          .devices_per_node = placement.devices_per_node(),
          .compute_slots_per_node = cluster.compute_slots_per_node(),
          .node_of_rank = SlotsLimit(cluster, placement) ? NodesOf(placement) : std::vector<int64_t>(),
          .compute_turn = FromSeconds(cluster.compute_turn_seconds()),
          .trace = (options.trace && options.trace_repetitions == 1) || options.explain,
          .jitter = options.jitter,
          .stop_when_steady = false};
}

// Fills in the fields of the report about memory and about the models. The view is of `program`, which is `planned` or
// made from it.
void CompleteReport(const Program& program, const Program& planned, const SimulateOptions& options,
                    const RankPlacement& placement, const ProgramView& view, Simulation& simulation) {
  const TightestRank tightest = FindTightestRank(
      ValuesByView(view,
                   options.runtime == nullptr ? ArenasOf(program) : BytesOfTemplatesUnder(planned, *options.runtime)),
      view.template_of_rank, placement);
  ReportFit(tightest, &simulation.report);
  simulation.tightest_rank = tightest.rank;
  simulation.report.set_network(options.network);
  simulation.report.set_cost(options.cost);
  // A cost model that does not know devices gives no real times, so no fraction of the devices' peaks follows from its
  // times.
  if (!KnowsDevice(options.cost)) {
    simulation.report.clear_mfu();
    simulation.report.clear_mfu_causal();
    simulation.report.clear_hfu();
  }
}

// `program` is `planned`, or `planned` as a framework runs it.
absl::StatusOr<Simulation> SimulateAsItIs(const Program& program, const Program& planned, const Cluster& cluster,
                                          const SimulateOptions& options) {
  WEFT_RETURN_IF_ERROR(FindCostModel(options.cost).status());
  WEFT_ASSIGN_OR_RETURN(const NetworkModelEntry* network_entry, FindNetworkModel(options.network));
  if (options.trace && options.trace_repetitions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace_repetitions = ", options.trace_repetitions, " must be at least 1"));
  }
  WEFT_ASSIGN_OR_RETURN(const RankPlacement placement, RankPlacement::Make(MeshRanks(program.mesh()), cluster));
  const DeviceClasses devices = FindDeviceClasses(placement);
  WEFT_ASSIGN_OR_RETURN(const Runtime own, OwnRuntime());
  const Runtime& runtime = options.runtime == nullptr ? own : *options.runtime;
  WEFT_ASSIGN_OR_RETURN(const ProgramView view, ViewOf(program, cluster, options, runtime, placement, devices));
  const std::unique_ptr<NetworkModel> network =
      ThroughHosts(runtime, program, NetworkUnder(runtime, program, network_entry->make(program.mesh(), cluster)));
  WEFT_ASSIGN_OR_RETURN(const RankLinks all, LinkRanks(view));
  std::optional<RankLinks> folded;
  if (options.fold && !SlotsLimit(cluster, placement) && !options.jitter.any()) folded = FoldRanks(view, *network, all);
  const auto run = [&](const EngineOptions& engine_options) {
    absl::StatusOr<EngineResult> result = RunEngine(view, folded ? *folded : all, *network, engine_options);
    // Run again without folding, so that the error message names the ranks that it would name without folding.
    if (!result.ok() && folded) result = RunEngine(view, all, *network, engine_options);
    return result;
  };

  EngineOptions engine_options = IsolatedOptions(cluster, options, placement);
  WEFT_ASSIGN_OR_RETURN(const EngineResult isolated, run(engine_options));
  std::vector<CriticalHop> critical_path;
  if (options.explain) {
    WEFT_ASSIGN_OR_RETURN(critical_path, FindCriticalPath(view, isolated, engine_options));
  }
  engine_options.repetitions = kSteadyRepetitions;
  engine_options.trace = false;
  engine_options.stop_when_steady = true;
  WEFT_ASSIGN_OR_RETURN(const EngineResult steady, run(engine_options));

  Simulation simulation;
  // With jitter, costs may be lower than those that the bounds are computed from, so there are no bounds.
  const LowerBounds bounds = options.jitter.any() ? LowerBounds() : BoundsOf(view, cluster, placement, options.network);
  simulation.report = MakeReport(view, cluster, placement, devices, isolated, steady, bounds);
  simulation.report.set_simulated_ranks(static_cast<int64_t>(folded ? folded->ranks.size() : all.ranks.size()));
  CompleteReport(program, planned, options, placement, view, simulation);
  ReportCriticalPath(view, isolated, critical_path, &simulation.report);
  if (options.trace && options.trace_repetitions == 1) {
    simulation.trace = MakeTrace(view, isolated, 1);
  } else if (options.trace) {
    engine_options.repetitions = options.trace_repetitions;
    engine_options.trace = true;
    engine_options.stop_when_steady = false;
    WEFT_ASSIGN_OR_RETURN(const EngineResult traced, run(engine_options));
    simulation.trace = MakeTrace(view, traced, options.trace_repetitions);
  }
  if (simulation.trace.has_value()) simulation.trace->set_program_crc(ProgramCrc(program));
  return simulation;
}

absl::StatusOr<Simulation> SimulateByRuntime(const Program& program, const Cluster& cluster,
                                             const SimulateOptions& options) {
  if (options.runtime == nullptr) return SimulateAsItIs(program, program, cluster, options);
  if (!KnowsDevice(options.cost)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cost '", options.cost, "' does not know the times of kernels, so it cannot predict runtime '",
                     options.runtime->name(), "'; nearest: 'roofline', 'tiles'"));
  }
  std::vector<int> capabilities = {cluster.device().compute_capability()};
  for (const OtherDevices& other : cluster.other_devices()) {
    if (other.has_device()) capabilities.push_back(other.device().compute_capability());
  }
  std::optional<Program> as_run = AsRunBy(*options.runtime, capabilities, program);
  const Program& costed = as_run ? *as_run : program;
  WEFT_ASSIGN_OR_RETURN(Simulation simulation, SimulateAsItIs(costed, program, cluster, options));
  simulation.report.set_runtime(options.runtime->name());
  simulation.as_run = std::move(as_run);
  return simulation;
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Simulation simulation, SimulateByRuntime(program, cluster, options));
  if (options.runs != 0) {
    WEFT_ASSIGN_OR_RETURN(*simulation.report.mutable_noise(), SimulateRuns(program, cluster, options));
  }
  return simulation;
}

absl::Status CheckRatios(const Program& program, const SimulationReport& report) {
  if (!(report.iteration_seconds() > 0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no step of program '", program.name(), "' takes any time on cluster '", report.cluster(), "' with cost ",
        report.cost(), " and network ", report.network(),
        ", so no rates are available; set cluster.device.launch_seconds, or the work of the program's steps"));
  }
  if (program.model_flops() == 0 || report.mfu() > 0 || !KnowsDevice(report.cost())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cluster '", report.cluster(), "' has no peak for ", DType_Name(program.precision().compute()),
                   ", the compute type of program '", program.name(),
                   "', or the peak is so large, or the step so long, that MFU is 0; check cluster.device.peaks"));
}

}  // namespace weft::sim
