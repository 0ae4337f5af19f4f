#include "cli/plan_preset.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/common/terminal.h"
#include "planner/presets/preset.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"

namespace weft {

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const planner::Preset& preset : planner::Presets()) names.emplace_back(preset.name);
  return names;
}

absl::Status CheckPresetFlags(const Flags& flags) {
  for (const char* flag : {"schedules", "exclude", "from", "gap", "budget"}) {
    if (!flags.Given(flag)) continue;
    return UsageError(absl::StrCat("--", flag, " steers the search, which --preset replaces; leave one of them out"));
  }
  return absl::OkStatus();
}

absl::Status PlanByPresetCommand(const std::string& preset, const InputFlags& input, const Inputs& inputs,
                                 const planner::SearchOptions& options, const std::string& format,
                                 const std::string& output) {
  const absl::StatusOr<PresetReport> report = planner::PlanByPreset(preset, inputs.model, inputs.cluster, options);
  WEFT_RETURN_IF_ERROR(WithFile(report.status(), input, inputs));
  for (const std::string& note : inputs.notes) PrintNote(note);
  std::string text = PrintableLines(planner::PresetReportText(*report));
  if (format == "json") {
    WEFT_ASSIGN_OR_RETURN(text, MessageToJson(*report));
  }
  if (!output.empty()) {
    WEFT_RETURN_IF_ERROR(WriteFileAtomic(output, MessageToText(report->plans(report->chosen()).run().plan())));
  }
  const absl::Status printed = Print(text);
  if (printed.ok() || output.empty()) return printed;
  // The plan is written even if the report cannot be printed.
  return absl::Status(printed.code(), absl::StrCat(printed.message(), "; ", output, " is written"));
}

}  // namespace weft
