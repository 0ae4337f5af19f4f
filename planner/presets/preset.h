// The planners of the papers whose systems weft contains. Each chooses a plan by its paper's rule; weft then simulates
// the choice. To add one: one file, one line in kPresets (preset.cc).
#ifndef WEFT_PLANNER_PRESETS_PRESET_H_
#define WEFT_PLANNER_PRESETS_PRESET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/search/search.h"
#include "planner/search/search_context.h"
#include "planner/search/try_candidate.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/preset_report.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

struct PresetRequest {
  const SearchContext& context;
  // Its defaults are filled in, except that a microbatch of 0 lets the preset choose.
  Recipe recipe;
  // The fields that the user fixes, with the precision filled in. Every plan keeps the sizes of its axes.
  Plan plan;
  int64_t devices = 0;
  // For presets that rank plans: the number of plans to simulate.
  int wanted = 5;
};

// A plan that a preset considers.
struct PresetCandidate {
  TriedPlan tried;
  // Seconds of an iteration by the paper's model; 0 = it has none.
  double modeled_seconds = 0;
  // The figures of the paper's model for this plan, as text for the user.
  std::string figures = {};

  bool fits() const { return tried.status.ok() && tried.fits; }
};

struct PresetChoice {
  // At least one, in the order of the preset.
  std::vector<PresetCandidate> candidates;
  // Index of the candidate that the preset chooses, which fits; candidates.size() if none fits.
  size_t chosen = 0;
};

struct Preset {
  absl::string_view name;
  // Authors, year, arXiv number and section.
  absl::string_view paper;
  // The rule by which the preset chooses, for reports.
  absl::string_view rule;
  // Returns InvalidArgument if the preset cannot handle the model, the recipe or the plan, and FailedPrecondition if
  // the cluster lacks a figure.
  absl::StatusOr<PresetChoice> (*choose)(const PresetRequest& request);
};

// Sorted by name.
absl::Span<const Preset> Presets();

absl::StatusOr<PresetChoice> ChooseByAxonn(const PresetRequest& request);
absl::StatusOr<PresetChoice> ChooseByAxonn4d(const PresetRequest& request);
absl::StatusOr<PresetChoice> ChooseByChimera(const PresetRequest& request);
absl::StatusOr<PresetChoice> ChooseByHanayo(const PresetRequest& request);

// Chooses a plan by the preset of this name. Uses only these fields of `options`: space.recipe, space.plan,
// space.devices, cost, network, runtime, memory_bytes, threads and wanted. Returns NotFound for an unknown name,
// ResourceExhausted if no plan of the preset fits, and the errors of the preset. The chosen plan of a report always
// fits.
absl::StatusOr<PresetReport> PlanByPreset(absl::string_view name, const ModelGraph& model, const Cluster& cluster,
                                          const SearchOptions& options);

// Returns the report as lines for a terminal.
std::string PresetReportText(const PresetReport& report);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PRESETS_PRESET_H_
