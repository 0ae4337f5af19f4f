#include "planner/fit/form_pipeline.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower_program.h"
#include "compiler/mixed_cut.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

constexpr int kMicrobatches = 2;
// The compiler measures at most this many layers of a run: the first, the second, which stands for all layers in the
// middle, and the last.
constexpr int32_t kMeasured = 3;

// Returns a schedule of all forwards, then all backwards.
std::string DefinitionOf(size_t ranks, BackwardForms backwards) {
  std::string text = absl::StrCat("weft schedule 1\nranks: ", ranks, "\nmicrobatches: ", kMicrobatches, "\n");
  for (size_t s = 0; s < ranks; ++s) {
    absl::StrAppend(&text, "rank ", s, ": F", s, ".0 F", s, ".1");
    for (int m = 0; m < kMicrobatches; ++m) {
      const bool split = backwards.split && (!backwards.whole || m == 1);
      if (split) {
        absl::StrAppend(&text, " I", s, ".", m, " W", s, ".", m);
      } else {
        absl::StrAppend(&text, " B", s, ".", m);
      }
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

void SetPipe(int64_t ranks, Mesh* mesh) {
  for (MeshAxis& axis : *mesh->mutable_axes()) {
    if (axis.name() != "pipe") continue;
    axis.set_size(ranks);
    return;
  }
  if (ranks == 1) return;
  MeshAxis* pipe = mesh->add_axes();
  pipe->set_name("pipe");
  pipe->set_size(ranks);
}

absl::StatusOr<PlanInputs> ShortInputs(const PlanInputs& inputs, const ModelGraph& model, Plan plan) {
  // The resolved plan states both bucket sizes, but a plan that is resolved again may state only one.
  if (plan.offload().optimizer()) plan.clear_gradient_bucket_bytes();
  Recipe recipe = inputs.recipe;
  recipe.set_global_batch_sequences(kMicrobatches * recipe.microbatch_sequences() * AxisSize(plan.mesh(), "data"));
  Cluster cluster = inputs.cluster;
  const int64_t devices = std::max<int64_t>(1, cluster.devices_per_node());
  cluster.set_nodes(std::max(cluster.nodes(), (MeshRanks(plan.mesh()) + devices - 1) / devices));
  WEFT_ASSIGN_OR_RETURN(PlanInputs resolved, ResolveInputs(model, recipe, plan, cluster, /*notes=*/nullptr));
  resolved.cost = inputs.cost;
  resolved.quick_arenas = true;
  return resolved;
}

}  // namespace

absl::StatusOr<Program> CompileForms(const PlanInputs& inputs, const ModelRuns& model, const StageForms& forms,
                                     BackwardForms backwards) {
  Plan plan = inputs.plan;
  const size_t ranks = forms.layers.size();
  SetPipe(static_cast<int64_t>(ranks), plan.mutable_mesh());
  plan.mutable_schedule()->Clear();
  plan.mutable_schedule()->set_name("stage-forms");
  plan.mutable_schedule()->set_definition(DefinitionOf(ranks, backwards));
  const std::vector<int32_t> layers = forms.LayersPerForm();
  plan.mutable_partition()->mutable_layers_per_stage()->Assign(layers.begin(), layers.end());
  WEFT_ASSIGN_OR_RETURN(const PlanInputs form_inputs,
                        ShortInputs(inputs, ShortenRuns(model.model, model.runs, forms.LayersPerRun()), plan));
  WEFT_ASSIGN_OR_RETURN(const StepCost cost, CostsOf(form_inputs));
  return LowerPlan(form_inputs, cost, /*evaluation=*/false, /*layers_per_stage=*/nullptr, /*notes=*/nullptr);
}

absl::StatusOr<std::vector<KindCosts>> CutCostsOf(const PlanInputs& inputs, const ModelRuns& model,
                                                  const std::vector<LayerRun>& runs, const RankKinds& kinds) {
  Plan plan = inputs.plan;
  SetPipe(1, plan.mutable_mesh());
  plan.clear_schedule();
  plan.clear_partition();
  std::vector<int32_t> most;
  for (const LayerRun& run : runs) most.push_back(std::min(run.layers, kMeasured));
  WEFT_ASSIGN_OR_RETURN(const PlanInputs short_inputs,
                        ShortInputs(inputs, ShortenRuns(model.model, model.runs, most), plan));
  std::vector<StepCost> costs;
  if (kinds.kinds.empty()) {
    WEFT_ASSIGN_OR_RETURN(costs.emplace_back(), CostsOf(short_inputs));
  } else {
    WEFT_ASSIGN_OR_RETURN(costs, CostsOnKinds(short_inputs, kinds));
  }
  std::vector<KindCosts> made;
  for (const StepCost& cost : costs) {
    WEFT_ASSIGN_OR_RETURN(const MeasuredLayers measured, MeasureLayersOf(short_inputs, cost));
    KindCosts& of_kind = made.emplace_back();
    of_kind.recompute.every = measured.recompute.every;
    int32_t at = 0;
    for (size_t r = 0; r < runs.size(); ++r) {
      const auto append = [&](const std::vector<int64_t>& from, std::vector<int64_t>* to) {
        if (from.empty()) return;
        for (int32_t i = 0; i < runs[r].layers; ++i) {
          const int32_t end = runs[r].layers - i;
          const int32_t measured_layer = end == 1 ? most[r] - 1 : std::min({i, 1, most[r] - 1});
          to->push_back(from[at + measured_layer]);
        }
      };
      append(measured.layers, &of_kind.layers);
      append(measured.recompute.layers, &of_kind.recompute.layers);
      at += most[r];
    }
  }
  return made;
}

}  // namespace weft::planner
