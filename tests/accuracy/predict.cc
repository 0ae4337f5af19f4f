#include "tests/accuracy/predict.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "catalog/catalog.h"
#include "catalog/load.h"
#include "compiler/inputs/stage_cut.h"
#include "compiler/memory_fit.h"
#include "planner/compile.h"
#include "planner/evaluate.h"
#include "proto/io/io.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"
#include "simulator/network/network_model.h"
#include "simulator/simulate.h"
#include "tests/accuracy/family.h"
#include "tests/accuracy/machine.h"
#include "tests/accuracy/run_model.h"
#include "tests/accuracy/run_plan.h"

namespace weft {
namespace {

// Puts the message on one line and shortens it, because reasons are printed in a table.
absl::Status InOneLine(const absl::Status& status) {
  constexpr size_t kMax = 240;
  std::string text = absl::StrReplaceAll(status.message(), {{"\n", "; "}});
  if (text.size() > kMax) text = absl::StrCat(text.substr(0, text.rfind(' ', kMax)), " ...");
  return absl::Status(status.code(), text);
}

// True if NVLink connects the host's memory to the device, and the memory can hold everything that does not fit on the
// device. NVIDIA's recipes offload activations layer by layer beside computation (Megatron-Bridge, "CPU Offloading";
// --activation_offload_layers of its performance scripts).
bool HostHolds(const Program& program, const Cluster& cluster) {
  if (cluster.host().kind() != NVLINK || cluster.devices_per_node() < 1) return false;
  const int64_t missing = PlannedDeviceBytes(program) - planner::UsableBytes(cluster.device());
  return missing <= cluster.host_memory_bytes() / cluster.devices_per_node();
}

// Applies the switches that the run states to its runtime.
void SetSwitches(const Measurement& run, const Runtimes& runtimes, Runtime* runtime) {
  // MegaScale's table 3 adds one optimization after another to Megatron-LM, so a step has all optimizations up to its
  // own.
  if (const int64_t step = CumulativeStep(run); step > 0) {
    const Runtime& last = runtimes.at("megascale");
    if (step >= 4) runtime->set_tensor_pieces(last.tensor_pieces());
    if (step >= 5) runtime->mutable_plan()->set_transfer_placement(last.plan().transfer_placement());
    if (step >= 6) {
      runtime->set_sums_under_backward(last.sums_under_backward());
      runtime->set_gathers_under_forward(last.gathers_under_forward());
    }
    if (step >= 7) *runtime->mutable_kernels() = last.kernels();
  }
  // Weights in blocks of 32 (MXFP8) are gathered in 16 bits (NeMo, bf16_with_mxfp8_mixed: fp8_param_gather = False).
  if (absl::StrContains(absl::AsciiStrToLower(run.plan.precision), "mx")) runtime->clear_gathered_weight_bytes();
  const auto overlap = run.extra.find("tp_overlap");
  if (overlap == run.extra.end()) return;
  const bool on = absl::StartsWithIgnoreCase(overlap->second, "true");
  runtime->set_tensor_pieces(on ? std::max(runtime->tensor_pieces(), 4) : 0);
}

// Sets the microbatches of `plan` to those of the shorter of two programs, and made->lengths (predict.h). Returns the
// global batch of the longer program; 0 = the run is not shortened, and nothing changes.
int64_t Shorten(RunPlan* plan, CompiledRun* made) {
  constexpr int64_t kMax = int64_t{1} << 20;
  if (plan->recipe.microbatch_sequences() > kMax || AxisSize(plan->plan.mesh(), "data") > kMax) return 0;
  const int64_t samples = AxisSize(plan->plan.mesh(), "data") * plan->recipe.microbatch_sequences();
  if (samples <= 0 || plan->recipe.global_batch_sequences() % samples != 0) return 0;
  const int64_t microbatches = plan->recipe.global_batch_sequences() / samples;
  const auto shorter = ShorterRuns(microbatches, AxisSize(plan->plan.mesh(), "pipe"), plan->plan.schedule().name());
  if (!shorter) return 0;
  made->lengths =
      static_cast<double>(microbatches - shorter->first) / static_cast<double>(shorter->second - shorter->first);
  made->assumptions.push_back(
      absl::StrCat(microbatches, " microbatches from ", shorter->first, " and ", shorter->second));
  plan->recipe.set_global_batch_sequences(shorter->first * samples);
  return shorter->second * samples;
}

void CutStages(const Runtime& runtime, const ModelGraph& model, RunPlan* plan, std::vector<std::string>* assumptions) {
  const std::vector<int32_t> cut = CutStagesAs(runtime, model, plan->recipe, &plan->plan);
  const int64_t blocks = std::accumulate(cut.begin(), cut.end(), int64_t{-2}), stages = std::ssize(cut);
  if (runtime.stage_cut() == Runtime::BY_BLOCKS && stages > 0 && blocks % stages != 0) {
    assumptions->push_back("layers cut as evenly as they can be");
  }
}

absl::StatusOr<CompiledRun> CompileAll(const Measurement& stated, const Machines& machines, const Runtimes& runtimes,
                                       const std::string& cost, bool whole) {
  if (!stated.unreadable.empty()) return absl::InvalidArgumentError(stated.unreadable);
  CompiledRun made;
  Measurement run = stated;
  CompleteSizes(&run, &made.assumptions);
  made.runtime = runtimes.at(RuntimeOf(run, &made.assumptions));
  SetSwitches(run, runtimes, &made.runtime);
  WEFT_ASSIGN_OR_RETURN(RunPlan plan, PlanOf(run, made.runtime, &made.assumptions));
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model, ModelOf(run, made.runtime, &made.assumptions));
  WEFT_ASSIGN_OR_RETURN(made.machine, CatalogMachineOf(run.machine));
  const auto base = machines.find(made.machine);
  if (base == machines.end()) return absl::NotFoundError(absl::StrCat("the catalog has no '", made.machine, "'"));
  WEFT_ASSIGN_OR_RETURN(made.cluster, MachineOf(run, base->second, &made.assumptions));
  planner::CompileOptions options;
  options.cost = cost;
  // The prediction states separately whether the program fits, so a program that does not fit is not an error.
  options.allow_oom = true;
  options.evaluation = false;
  options.remedies = false;
  const int64_t longer = whole ? 0 : Shorten(&plan, &made);
  CutStages(made.runtime, model, &plan, &made.assumptions);
  WEFT_ASSIGN_OR_RETURN(made.program, planner::CompilePlan(model, plan.recipe, plan.plan, made.cluster, options));
  if (plan.recompute_unknown) {
    const bool fits = CheckMemoryFit(made.program, made.cluster).ok();
    const bool held = !fits && stated.plan.offload.empty() && HostHolds(made.program, made.cluster);
    if (!fits && !held) {
      plan.plan.mutable_recompute()->set_mode(Recompute::FIT);
      WEFT_ASSIGN_OR_RETURN(made.program, planner::CompilePlan(model, plan.recipe, plan.plan, made.cluster, options));
    }
    made.assumptions.push_back(fits   ? "no recompute, which fits"
                               : held ? "activations that do not fit in the host's memory"
                                      : "as many layers recomputed as must be to fit");
  }
  if (longer > 0) {
    plan.recipe.set_global_batch_sequences(longer);
    WEFT_ASSIGN_OR_RETURN(made.longer, planner::CompilePlan(model, plan.recipe, plan.plan, made.cluster, options));
  }
  return made;
}

}  // namespace

absl::StatusOr<Machines> LoadMachines() {
  Machines machines;
  for (const std::string& name : CatalogNames("clusters")) {
    WEFT_ASSIGN_OR_RETURN(const CatalogFile file, FindInCatalog("clusters", name));
    Cluster& cluster = machines[name];
    WEFT_RETURN_IF_ERROR(ParseMessage(file.content, file.path, &cluster));
    WEFT_RETURN_IF_ERROR(Validate(cluster));
  }
  return machines;
}

absl::StatusOr<Runtimes> LoadRuntimes() {
  Runtimes runtimes;
  for (const std::string& name : CatalogNames("runtimes")) {
    WEFT_ASSIGN_OR_RETURN(runtimes[name], LoadRuntime(name));
  }
  return runtimes;
}

std::optional<std::pair<int64_t, int64_t>> ShorterRuns(int64_t microbatches, int64_t ranks,
                                                       absl::string_view schedule) {
  // The most microbatches in flight, and a few more. An interleaved schedule advances by one microbatch per rank at a
  // time.
  int64_t first = 0;
  if (schedule == "1f1b") first = ranks + 2;
  if (schedule == "interleaved" || schedule == "zb-h1") first = 2 * ranks;
  if (schedule == "zb-h2") first = 3 * ranks;
  const int64_t second = first + ranks;
  if (ranks < 1 || first == 0 || microbatches <= first + second) return std::nullopt;
  return std::make_pair(first, second);
}

absl::StatusOr<CompiledRun> CompileRun(const Measurement& run, const Machines& machines, const Runtimes& runtimes,
                                       const std::string& cost, bool whole) {
  absl::StatusOr<CompiledRun> compiled = CompileAll(run, machines, runtimes, cost, whole);
  if (!compiled.ok()) return InOneLine(compiled.status());
  return compiled;
}

absl::StatusOr<Cluster> MachineOfRun(const Measurement& run, const Cluster& machine) {
  std::vector<std::string> assumptions;
  return MachineOf(run, machine, &assumptions);
}

absl::StatusOr<SimulationReport> SimulateRun(const CompiledRun& run, const Cluster& cluster, const Runtime& runtime,
                                             const std::string& cost, const std::string& network) {
  sim::SimulateOptions options;
  options.cost = cost;
  // The network's choice of algorithms is that of NCCL, so it applies only to NVIDIA's devices.
  const bool unknown = sim::HasTrait(network, sim::kChoosesAlgorithms) && cluster.device().compute_capability() == 0;
  options.network = unknown ? "analytic" : network;
  options.runtime = &runtime;
  absl::StatusOr<sim::Simulation> simulation = sim::Simulate(run.program, cluster, options);
  if (!simulation.ok()) return InOneLine(simulation.status());
  SimulationReport report = std::move(simulation->report);
  if (!run.longer) return report;
  const absl::StatusOr<sim::Simulation> longer = sim::Simulate(*run.longer, cluster, options);
  if (!longer.ok()) return InOneLine(longer.status());
  const auto extended = [&](double first, double second) { return first + run.lengths * (second - first); };
  report.set_iteration_seconds(extended(report.iteration_seconds(), longer->report.iteration_seconds()));
  report.set_makespan_seconds(extended(report.makespan_seconds(), longer->report.makespan_seconds()));
  for (int i = 0; i < report.per_rank_size() && i < longer->report.per_rank_size(); ++i) {
    RankReport& own = *report.mutable_per_rank(i);
    const RankReport& other = longer->report.per_rank(i);
    own.set_busy_seconds(extended(own.busy_seconds(), other.busy_seconds()));
    own.set_exposed_communication_seconds(
        extended(own.exposed_communication_seconds(), other.exposed_communication_seconds()));
    own.set_idle_seconds(extended(own.idle_seconds(), other.idle_seconds()));
  }
  report.set_fits(report.fits() && longer->report.fits());
  return report;
}

}  // namespace weft
