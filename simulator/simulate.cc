#include "simulator/simulate.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "proto/program_file.h"
#include "proto/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/engine.h"
#include "simulator/metrics.h"
#include "simulator/network/network_model.h"
#include "simulator/program_view.h"

namespace weft {

absl::StatusOr<Simulation> Simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options) {
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
  const auto duration = [&](int segment, int step, ActionKind kind) {
    return cost->cost(program.segments(segment).steps(step), kind, step, cluster, options.cost_options);
  };
  WEFT_ASSIGN_OR_RETURN(const ProgramView view, BuildProgramView(program, duration, {.join_steps = !slots_limit}));
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

}  // namespace weft
