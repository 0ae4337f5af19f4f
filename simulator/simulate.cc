#include "simulator/simulate.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "proto/program_file.h"
#include "proto/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/engine.h"
#include "simulator/metrics.h"
#include "simulator/network/network_model.h"
#include "simulator/program_view.h"
#include "simulator/runtime/as_run_by.h"
#include "simulator/runtime/runtime_memory.h"
#include "simulator/runtime/runtime_steps.h"

namespace weft {
namespace {

// By segment, microbatches that a forward on it is for: its shapes are those of so many.
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

// By segment, its first step on the compute stream.
std::vector<int> FirstComputeSteps(const Program& program) {
  std::vector<int> first(program.segments_size(), 0);
  for (int i = 0; i < program.segments_size(); ++i) {
    const Segment& segment = program.segments(i);
    while (first[i] < segment.steps_size() && segment.steps(first[i]).stream() != COMPUTE) ++first[i];
  }
  return first;
}

// A unit cost is of one microbatch on one whole rank; a stage is a part of that.
Time OfOneStage(Time cost, int64_t ranks, int64_t stages) {
  if (stages <= 0 || ranks == stages) return cost;
  const __int128 scaled = (static_cast<__int128>(cost.ps) * ranks + stages - 1) / stages;
  return Time{static_cast<int64_t>(std::min<__int128>(scaled, int64_t{1} << 62))};
}

Time Times(Time cost, int64_t factor) {
  return Time{cost.ps > (int64_t{1} << 62) / factor ? int64_t{1} << 62 : cost.ps * factor};
}

CostOptions OfOneStage(CostOptions options, const Program& program) {
  const int64_t ranks = std::max<int64_t>(1, AxisSize(program.mesh(), "pipe"));
  for (Time* cost : {&options.unit_forward, &options.unit_backward, &options.unit_weight, &options.unit_pair}) {
    *cost = OfOneStage(*cost, ranks, program.stages());
  }
  return options;
}

absl::StatusOr<Simulation> SimulateAsItIs(const Program& program, const Cluster& cluster,
                                          const SimulateOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const CostModelEntry* cost, FindCostModel(options.cost));
  WEFT_ASSIGN_OR_RETURN(const NetworkModelEntry* network_entry, FindNetworkModel(options.network));
  if (options.trace && options.trace_repetitions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace_repetitions = ", options.trace_repetitions, " must be at least 1"));
  }
  const int64_t ranks = MeshRanks(program.mesh());
  const int64_t devices_per_node = std::max<int64_t>(cluster.devices_per_node(), 1);
  const int64_t devices = cluster.nodes() * devices_per_node;
  if (ranks > devices) {
    return absl::InvalidArgumentError(absl::StrCat("cluster '", cluster.name(), "' has ", cluster.nodes(), " nodes of ",
                                                   devices_per_node, " devices, but the program has ", ranks,
                                                   " ranks; cluster.nodes must be at least ",
                                                   (ranks + devices_per_node - 1) / devices_per_node));
  }

  const bool slots_limit = cluster.compute_slots_per_node() > 0 && cluster.compute_slots_per_node() < devices_per_node;
  const CostOptions cost_options = OfOneStage(options.cost_options, program);
  const std::vector<int32_t> widths = SegmentWidths(program);
  const std::vector<int> first_compute = FirstComputeSteps(program);
  const Runtime plain;
  RuntimeSteps steps(program, options.runtime == nullptr ? plain : *options.runtime, cost->cost);
  const auto duration = [&](int segment, int step, ActionKind kind) {
    CostOptions wide = cost_options;
    wide.unit_forward = Times(wide.unit_forward, widths[segment]);
    return steps.Cost(segment, step, kind, step - first_compute[segment], cluster, wide);
  };
  WEFT_ASSIGN_OR_RETURN(
      const ProgramView view,
      BuildProgramView(program, duration, {.join_steps = !slots_limit, .exceeded = options.exceeded}));
  if (options.trace) WEFT_RETURN_IF_ERROR(CheckTraceSize(view, options.trace_repetitions));
  const std::unique_ptr<NetworkModel> network = network_entry->make(program.mesh(), cluster);

  const bool trace_isolated = options.trace && options.trace_repetitions == 1;
  EngineOptions engine_options = {.repetitions = 1,
                                  .devices_per_node = devices_per_node,
                                  .compute_slots_per_node = cluster.compute_slots_per_node(),
                                  .compute_turn = FromSeconds(cluster.compute_turn_seconds()),
                                  .trace = trace_isolated,
                                  .stop_when_steady = false};
  WEFT_ASSIGN_OR_RETURN(const EngineResult isolated, RunEngine(view, *network, engine_options));
  engine_options.repetitions = kSteadyRepetitions;
  engine_options.trace = false;
  engine_options.stop_when_steady = true;
  WEFT_ASSIGN_OR_RETURN(const EngineResult steady, RunEngine(view, *network, engine_options));

  Simulation simulation;
  simulation.report = MakeReport(view, cluster, isolated, steady);
  simulation.report.set_network(options.network);
  simulation.report.set_cost(options.cost);
  if (trace_isolated) {
    simulation.trace = MakeTrace(view, isolated, 1);
  } else if (options.trace) {
    engine_options.repetitions = options.trace_repetitions;
    engine_options.trace = true;
    engine_options.stop_when_steady = false;
    WEFT_ASSIGN_OR_RETURN(const EngineResult traced, RunEngine(view, *network, engine_options));
    simulation.trace = MakeTrace(view, traced, options.trace_repetitions);
  }
  if (simulation.trace.has_value()) simulation.trace->set_program_crc(ProgramCrc(program));
  return simulation;
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options) {
  if (options.runtime == nullptr) return SimulateAsItIs(program, cluster, options);
  if (options.cost == "unit") {
    return absl::InvalidArgumentError(absl::StrCat("cost 'unit' knows no kernels, so nothing of runtime '",
                                                   options.runtime->name(), "'; nearest: 'roofline', 'tiles'"));
  }
  std::optional<Program> as_run = AsRunBy(*options.runtime, program);
  const Program& costed = as_run ? *as_run : program;
  WEFT_ASSIGN_OR_RETURN(Simulation simulation, SimulateAsItIs(costed, cluster, options));
  simulation.report.set_runtime(options.runtime->name());
  AddRuntimeBytes(program, *options.runtime, &simulation.report);
  simulation.as_run = std::move(as_run);
  return simulation;
}

}  // namespace weft
