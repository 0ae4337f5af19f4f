#include "tests/accuracy/predict.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "catalog/catalog.h"
#include "compiler/compile.h"
#include "proto/io.h"
#include "proto/status.h"
#include "proto/validate.h"
#include "simulator/simulate.h"
#include "tests/accuracy/framework.h"
#include "tests/accuracy/machine.h"
#include "tests/accuracy/run_model.h"
#include "tests/accuracy/run_plan.h"

namespace weft {
namespace {

// Reasons stand in a table.
absl::Status InOneLine(const absl::Status& status) {
  constexpr size_t kMost = 240;
  std::string text = absl::StrReplaceAll(status.message(), {{"\n", "; "}});
  if (text.size() > kMost) text = absl::StrCat(text.substr(0, text.rfind(' ', kMost)), " ...");
  return absl::Status(status.code(), text);
}

absl::StatusOr<CompiledRun> CompileAll(const Measurement& run, const Machines& machines) {
  CompiledRun made;
  const Framework& framework = FrameworkOf(run.family);
  WEFT_ASSIGN_OR_RETURN(RunPlan plan, PlanOf(run, framework, &made.assumptions));
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model, ModelOf(run, framework, &made.assumptions));
  WEFT_ASSIGN_OR_RETURN(made.machine, CatalogMachineOf(run.machine.gpu));
  const auto base = machines.find(made.machine);
  if (base == machines.end()) return absl::NotFoundError(absl::StrCat("the catalog has no '", made.machine, "'"));
  WEFT_ASSIGN_OR_RETURN(made.cluster, MachineOf(run, base->second, &made.assumptions));
  CompileOptions options;
  // Whether it fits is a figure of its own.
  options.allow_oom = true;
  options.evaluation = false;
  options.ways_out = false;
  WEFT_ASSIGN_OR_RETURN(made.program, Compile(model, plan.recipe, plan.plan, made.cluster, options));
  if (!plan.recompute_unknown) return made;
  const bool fits = !made.program.does_not_fit();
  if (!fits) {
    plan.plan.mutable_recompute()->set_mode(Recompute::FULL);
    WEFT_ASSIGN_OR_RETURN(made.program, Compile(model, plan.recipe, plan.plan, made.cluster, options));
  }
  made.assumptions.push_back(fits ? "no recompute, which fits" : "full recompute, as none does not fit");
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

absl::StatusOr<CompiledRun> CompileRun(const Measurement& run, const Machines& machines) {
  absl::StatusOr<CompiledRun> compiled = CompileAll(run, machines);
  if (!compiled.ok()) return InOneLine(compiled.status());
  return compiled;
}

absl::StatusOr<Cluster> MachineOfRun(const Measurement& run, const Cluster& machine) {
  std::vector<std::string> assumptions;
  return MachineOf(run, machine, &assumptions);
}

absl::StatusOr<SimulationReport> SimulateRun(const Program& program, const Cluster& cluster, const std::string& cost,
                                             const std::string& network) {
  SimulateOptions options;
  options.cost = cost;
  options.network = network;
  absl::StatusOr<Simulation> simulation = Simulate(program, cluster, options);
  if (!simulation.ok()) return InOneLine(simulation.status());
  return std::move(simulation->report);
}

}  // namespace weft
