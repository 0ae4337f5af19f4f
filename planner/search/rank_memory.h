// How many bytes each pipe rank of a plan needs at least, and how many of its layers it must recompute to fit.
#ifndef WEFT_PLANNER_SEARCH_RANK_MEMORY_H_
#define WEFT_PLANNER_SEARCH_RANK_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/search/block_profile.h"
#include "planner/search/plan_bound.h"
#include "planner/search/schedule_shape.h"

namespace weft::planner {

// The inputs, and the costs of all stages, on the device of each pipe rank.
class Ranks {
 public:
  // `in` is borrowed.
  explicit Ranks(const BoundInputs& in);

  const BoundInputs& In(int rank) const { return inputs_.size() == 1 ? inputs_[0] : inputs_[rank]; }
  const std::vector<LayerCosts>& Stages(int rank) const { return stages_.size() == 1 ? stages_[0] : stages_[rank]; }

 private:
  std::vector<BoundInputs> inputs_;
  std::vector<std::vector<LayerCosts>> stages_;
};

// Returns the time of a backward, whole or in halves, as the schedule runs it; if it runs both, of the shorter form.
int64_t BackwardOf(const LayerCosts& costs, const ScheduleShape& shape);

// The difference that recomputing layers of a stage makes.
struct Recomputed {
  // By how much a microbatch keeps less.
  int64_t saved_bytes = 0;
  int64_t saved_gradient_bytes = 0;
  // By how much a backward takes longer: all of it as the schedule runs it, a whole one, and an input half.
  int64_t again = 0;
  int64_t again_whole = 0;
  int64_t again_input = 0;
};

// The layers of one run in one stage, which a rank with recompute FIT may recompute.
struct RecomputedRun {
  int stage = 0;
  int32_t layers = 0;
  Recomputed change = {};
  // Bytes that a backward of these layers needs while it runs, if they are recomputed.
  int64_t workspace_bytes = 0;
  // Microbatches that run through the stage.
  int64_t microbatches = 0;
};

// For each pipe rank, the runs in the order of their layers, in which the rank recomputes them. Empty if the plan
// leaves no choice.
std::vector<std::vector<RecomputedRun>> RecomputedRunsOf(const BoundInputs& in, const Ranks& ranks);

// The bytes that a rank needs at least, and how many of its first layers it must recompute, in fractions of layers.
struct MemoryNeed {
  int64_t bytes = 0;
  double layers = 0;
  // Bytes that a recomputed layer frees on average, at the moment that needs most of them.
  int64_t freed = 0;
};

// Returns what a rank with these states needs at the fullest of its moments. `stages` recompute nothing; `runs` are
// those of the rank.
MemoryNeed MemoryOf(const BoundInputs& in, int64_t states, const std::vector<ScheduleShape::Held>& held,
                    const std::vector<LayerCosts>& stages, const std::vector<RecomputedRun>& runs);

// By pipe rank: how many bytes less than `states` and activations a rank takes at most (RunCosts.tiled_bytes).
std::vector<int64_t> TiledBytesOf(const BoundInputs& in, const Ranks& ranks);

// Calls visit(run, share) for each run of which a rank recomputes a share, if it recomputes its first `layers`.
template <typename Visit>
void ForEachRecomputed(const std::vector<RecomputedRun>& runs, double layers, const Visit& visit) {
  for (const RecomputedRun& run : runs) {
    if (layers <= 0) return;
    visit(run, std::min(1.0, layers / run.layers));
    layers -= run.layers;
  }
}

// True if gradients are sharded over replicas.
bool IsSharded(const BoundInputs& in);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_RANK_MEMORY_H_
