// Fuzz target: files of measured runs and of ranking sets, and the model, plan and machine of each run.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catalog/load.h"
#include "tests/accuracy/family.h"
#include "tests/accuracy/machine.h"
#include "tests/accuracy/measurement.h"
#include "tests/accuracy/run_model.h"
#include "tests/accuracy/run_plan.h"
#include "tests/fuzz/require.h"

using weft::Require;
using weft::RequireMessage;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto sets = weft::ParseRankingSets(text, "input");
  if (!sets.ok()) RequireMessage(sets.status());
  for (const weft::RankingSet& set : sets.value_or(std::vector<weft::RankingSet>())) {
    Require(set.unreadable.empty() || (set.ids.empty() && !set.group.empty()));
  }
  const auto measurements = weft::ParseMeasurements(text, "input");
  if (!measurements.ok()) {
    RequireMessage(measurements.status());
    return 0;
  }
  weft::Cluster base;
  base.set_name("base");
  base.set_devices_per_node(8);
  base.set_nics_per_node(8);
  base.mutable_device()->set_memory_bytes(int64_t{80} << 30);
  for (weft::Measurement run : measurements->runs) {
    Require(!run.id.empty());
    if (!run.unreadable.empty()) {
      RequireMessage(absl::InvalidArgumentError(run.unreadable));
      continue;
    }
    std::vector<std::string> assumptions;
    weft::CompleteSizes(&run, &assumptions);
    const auto runtime = weft::LoadRuntime(weft::RuntimeOf(run, &assumptions));
    Require(runtime.ok());
    const auto plan = weft::PlanOf(run, *runtime, &assumptions);
    if (!plan.ok()) RequireMessage(plan.status());
    const auto machine = weft::MachineOf(run, base, &assumptions);
    Require(!machine.ok() || machine->nodes() * machine->devices_per_node() >= *run.machine.gpus);
    (void)weft::CatalogMachineOf(run.machine);
    // Building thousands of layers would test nothing more.
    if (run.model.layers.value_or(0) > 20) continue;
    const auto model = weft::ModelOf(run, *runtime, &assumptions);
    if (!model.ok()) Require(!model.status().message().empty());
  }
  return 0;
}
