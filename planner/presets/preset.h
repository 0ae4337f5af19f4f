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
  // With defaults, except that a microbatch of 0 leaves the choice to the preset.
  Recipe recipe;
  // What the user fixes, with its precision filled in. Sizes of axes in it hold for every plan.
  Plan plan;
  int64_t devices = 0;
  // How many plans of a ranking are simulated, for presets that rank.
  int wanted = 5;
};

// A plan that a preset considers.
struct PresetCandidate {
  TriedPlan tried;
  // Seconds of an iteration by the paper's model; 0 = it has none.
  double modeled_seconds = 0;
  // What the paper's model says of this plan, for the user.
  std::string figures = {};

  bool fits() const { return tried.status.ok() && tried.fits; }
};

struct PresetChoice {
  // In the preset's own order. At least one.
  std::vector<PresetCandidate> candidates;
  // Index of its choice, which fits; candidates.size() if none fits.
  size_t chosen = 0;
};

struct Preset {
  absl::string_view name;
  // Authors, year, number in arXiv, section.
  absl::string_view paper;
  // How it chooses.
  absl::string_view rule;
  // InvalidArgument if it cannot handle the model, the recipe or the plan; FailedPrecondition if the cluster lacks a
  // figure.
  absl::StatusOr<PresetChoice> (*choose)(const PresetRequest& request);
};

// Sorted by name.
absl::Span<const Preset> Presets();

absl::StatusOr<PresetChoice> ChooseByAxonn(const PresetRequest& request);
absl::StatusOr<PresetChoice> ChooseByAxonn4d(const PresetRequest& request);
absl::StatusOr<PresetChoice> ChooseByChimera(const PresetRequest& request);
absl::StatusOr<PresetChoice> ChooseByHanayo(const PresetRequest& request);

// Plans by the preset of this name. Of `options`, it uses the recipe, the plan and the devices of `space`, and cost,
// network, runtime, memory_bytes, threads and wanted. NotFound for an unknown name, ResourceExhausted if no plan of the
// preset fits, and the errors of the preset. The report has at least the plan that was chosen, which fits.
absl::StatusOr<PresetReport> PlanByPreset(absl::string_view name, const ModelGraph& model, const Cluster& cluster,
                                          const SearchOptions& options);

// The report as lines for a terminal.
std::string PresetReportText(const PresetReport& report);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PRESETS_PRESET_H_
