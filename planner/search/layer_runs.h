// Finds runs of equal layers in a model, and shortens them: most models repeat one block, so a model with one or two
// blocks shows what each block costs.
#ifndef WEFT_PLANNER_SEARCH_LAYER_RUNS_H_
#define WEFT_PLANNER_SEARCH_LAYER_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/model_graph.pb.h"

namespace weft::planner {

// `layers` consecutive layers from `first` on that compute the same with parameters of the same shapes.
struct LayerRun {
  int32_t first = 0;
  int32_t layers = 0;

  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

// Cuts the layers of a valid model into runs, in order; every layer is in one run. A layer whose values are read by
// layers other than the next one, or that shares parameters with another layer, is a run of its own.
std::vector<LayerRun> RunsOfLayers(const ModelGraph& model);

// Returns the model with at most `most` layers (at least 1) of each run, renumbered. `runs` are those of the model. The
// layer after a shortened run reads the values of the last layer that is left.
ModelGraph ShortenRuns(const ModelGraph& model, absl::Span<const LayerRun> runs, int32_t most);

// As above, with at most most[i] (at least 1) layers of run i.
ModelGraph ShortenRuns(const ModelGraph& model, absl::Span<const LayerRun> runs, absl::Span<const int32_t> most);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_LAYER_RUNS_H_
