// weft plan --preset: plans as the planner of a paper would.
#ifndef WEFT_CLI_PLAN_PRESET_H_
#define WEFT_CLI_PLAN_PRESET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/common/flags.h"
#include "cli/inputs/inputs.h"
#include "planner/search/search.h"

namespace weft {

// The presets' names.
std::vector<std::string> PresetNames();

// Returns a usage error if `flags` has a flag that steers the search, which a preset replaces.
absl::Status CheckPresetFlags(const Flags& flags);

// Plans by the preset, writes the plan to `output` (empty = to no file) and prints the report in `format`, "text" or
// "json".
absl::Status PlanByPresetCommand(const std::string& preset, const InputFlags& input, const Inputs& inputs,
                                 const planner::SearchOptions& options, const std::string& format,
                                 const std::string& output);

}  // namespace weft

#endif  // WEFT_CLI_PLAN_PRESET_H_
