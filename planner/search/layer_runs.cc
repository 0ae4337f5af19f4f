#include "planner/search/layer_runs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace weft::planner {
namespace {

// The op that makes a value.
struct Source {
  int32_t layer = 0;
  // Position among the ops of its layer, and among the outputs of its op.
  int32_t op = 0;
  int32_t output = 0;
};

class Layers {
 public:
  explicit Layers(const ModelGraph& model) : model_(model) {
    for (const GraphParameter& parameter : model.parameters()) parameters_[parameter.name()] = &parameter;
    for (const GraphOp& op : model.ops()) {
      if (op.layer() >= count()) ops_.resize(op.layer() + 1);
      std::vector<const GraphOp*>& layer = ops_[op.layer()];
      for (int i = 0; i < op.outputs_size(); ++i) {
        sources_[op.outputs(i)] = {op.layer(), static_cast<int32_t>(layer.size()), i};
      }
      layer.push_back(&op);
    }
    alone_.resize(count());
    MarkAlone();
  }

  int32_t count() const { return static_cast<int32_t>(ops_.size()); }
  bool IsAlone(int32_t layer) const { return alone_[layer]; }
  const std::vector<const GraphOp*>& OpsOf(int32_t layer) const { return ops_[layer]; }
  const Source* SourceOf(const std::string& value) const {
    const auto found = sources_.find(value);
    return found == sources_.end() ? nullptr : &found->second;
  }

  // Returns a text that is equal for layers that compute the same. Values of the layer before are numbered in the order
  // of their first use, because the first layer of a run reads them from another kind of layer.
  std::string FormOf(int32_t layer) const {
    std::string form;
    absl::flat_hash_map<std::string, size_t> inputs;
    for (const GraphOp* op : ops_[layer]) {
      absl::StrAppend(&form, op->kind(), "(", op->attributes().SerializeAsString(), ")", op->outputs_size());
      for (const std::string& input : op->inputs()) {
        if (const auto parameter = parameters_.find(input); parameter != parameters_.end()) {
          GraphParameter shape = *parameter->second;
          shape.clear_name();
          absl::StrAppend(&form, " parameter ", shape.SerializeAsString());
        } else if (const Source* source = SourceOf(input); source == nullptr) {
          absl::StrAppend(&form, " ", input);
        } else if (source->layer == layer) {
          absl::StrAppend(&form, " own ", source->op, ".", source->output);
        } else {
          absl::StrAppend(&form, " input ", inputs.try_emplace(input, inputs.size()).first->second);
        }
      }
      form.push_back('\n');
    }
    return form;
  }

  // Returns the values of `layer` that the next layer reads, in the order of their first use, as (op, output).
  std::vector<std::pair<int32_t, int32_t>> ReadFrom(int32_t layer) const {
    std::vector<std::pair<int32_t, int32_t>> places;
    if (layer + 1 >= count()) return places;
    for (const GraphOp* op : ops_[layer + 1]) {
      for (const std::string& input : op->inputs()) {
        const Source* source = SourceOf(input);
        if (source == nullptr || source->layer != layer) continue;
        const std::pair<int32_t, int32_t> place(source->op, source->output);
        if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
      }
    }
    return places;
  }

 private:
  void MarkAlone() {
    absl::flat_hash_map<std::string, int32_t> owner;
    for (int32_t layer = 0; layer < count(); ++layer) {
      for (const GraphOp* op : ops_[layer]) {
        for (const std::string& input : op->inputs()) {
          if (parameters_.contains(input)) {
            const int32_t first = owner.try_emplace(input, layer).first->second;
            if (first != layer) alone_[first] = alone_[layer] = true;
          } else if (const Source* source = SourceOf(input); source != nullptr && source->layer + 1 < layer) {
            alone_[source->layer] = alone_[layer] = true;
          }
        }
      }
    }
  }

  const ModelGraph& model_;
  std::vector<std::vector<const GraphOp*>> ops_;
  absl::flat_hash_map<std::string, const GraphParameter*> parameters_;
  absl::flat_hash_map<std::string, Source> sources_;
  std::vector<bool> alone_;
};

}  // namespace

std::vector<LayerRun> RunsOfLayers(const ModelGraph& model) {
  const Layers layers(model);
  std::vector<LayerRun> runs;
  std::string before;
  std::vector<std::pair<int32_t, int32_t>> read_before;
  for (int32_t layer = 0; layer < layers.count(); ++layer) {
    const std::string form = layers.FormOf(layer);
    // All layers of a run pass the same values to the next layer, so that each of them can be the last one.
    const std::vector<std::pair<int32_t, int32_t>> read = layers.ReadFrom(layer);
    const bool joins =
        !runs.empty() && form == before && read == read_before && !layers.IsAlone(layer) && !layers.IsAlone(layer - 1);
    if (joins) {
      ++runs.back().layers;
    } else {
      runs.push_back({layer, 1});
    }
    before = form;
    read_before = read;
  }
  return runs;
}

ModelGraph ShortenRuns(const ModelGraph& model, absl::Span<const LayerRun> runs, int32_t most) {
  return ShortenRuns(model, runs, std::vector<int32_t>(runs.size(), most));
}

ModelGraph ShortenRuns(const ModelGraph& model, absl::Span<const LayerRun> runs, absl::Span<const int32_t> most) {
  const Layers layers(model);
  // The new number of each layer, -1 for a layer that is left out, and the layer whose values replace its values.
  std::vector<int32_t> number(layers.count(), -1), stands_for(layers.count());
  int32_t next = 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    for (int32_t i = 0; i < runs[r].layers; ++i) {
      if (i < most[r]) number[runs[r].first + i] = next++;
      stands_for[runs[r].first + i] = runs[r].first + std::min(i, most[r] - 1);
    }
  }
  ModelGraph shortened = model;
  shortened.clear_ops();
  shortened.clear_parameters();
  absl::flat_hash_set<std::string> read;
  for (const GraphOp& op : model.ops()) {
    if (number[op.layer()] < 0) continue;
    GraphOp* kept = shortened.add_ops();
    *kept = op;
    kept->set_layer(number[op.layer()]);
    for (std::string& input : *kept->mutable_inputs()) {
      read.insert(input);
      const Source* source = layers.SourceOf(input);
      if (source == nullptr || number[source->layer] >= 0) continue;
      input = layers.OpsOf(stands_for[source->layer])[source->op]->outputs(source->output);
    }
  }
  for (const GraphParameter& parameter : model.parameters()) {
    if (read.contains(parameter.name())) *shortened.add_parameters() = parameter;
  }
  return shortened;
}

}  // namespace weft::planner
