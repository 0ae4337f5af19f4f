// Writes a model graph op by op. Every op has one output, which has the op's name.
#ifndef WEFT_COMPILER_MODELS_GRAPH_BUILDER_H_
#define WEFT_COMPILER_MODELS_GRAPH_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

class GraphBuilder {
 public:
  GraphBuilder(absl::string_view name, int64_t vocabulary, int64_t positions) {
    graph_.set_name(std::string(name));
    graph_.set_vocabulary(vocabulary);
    graph_.set_maximum_positions(positions);
  }

  // Appends an op. Returns the name of its output.
  std::string Op(absl::string_view name, absl::string_view kind, std::vector<std::string> inputs,
                 const OpAttributes& attributes = {}) {
    GraphOp& op = *graph_.add_ops();
    op.set_name(std::string(name));
    op.set_kind(std::string(kind));
    for (std::string& input : inputs) op.add_inputs(std::move(input));
    op.add_outputs(std::string(name));
    op.set_layer(layer_);
    if (attributes.ByteSizeLong() > 0) *op.mutable_attributes() = attributes;
    return std::string(name);
  }

  // Weight and Constant add a parameter and return its name. The initial values of a Weight are normal with standard
  // deviation `normal`; the initial values of a Constant all equal `value`.
  std::string Weight(absl::string_view name, const std::vector<int64_t>& extents, double normal) {
    GraphParameter& parameter = Parameter(name, extents);
    parameter.mutable_init()->set_normal(normal);
    return parameter.name();
  }
  std::string Constant(absl::string_view name, int64_t extent, double value) {
    GraphParameter& parameter = Parameter(name, {extent});
    parameter.mutable_init()->set_constant(value);
    return parameter.name();
  }
  // States that the last parameter has one row per vocabulary entry.
  void HasVocabularyRows() { graph_.mutable_parameters(graph_.parameters_size() - 1)->set_vocabulary_rows(true); }

  std::string Dropout(absl::string_view name, const std::string& x, double probability) {
    OpAttributes attributes;
    attributes.set_dropout(probability);
    return Op(name, "dropout", {x}, attributes);
  }

  // Appends x W^T (+ b), where W is [to, from], as most published checkpoints store it. `full` is the name of the
  // parameters without ".weight" and ".bias".
  std::string Linear(absl::string_view name, const std::string& full, const std::string& x, int64_t from, int64_t to,
                     double normal, bool bias) {
    std::vector<std::string> inputs = {x, Weight(full + ".weight", {to, from}, normal)};
    if (bias) inputs.push_back(Constant(full + ".bias", to, 0));
    return Op(name, "matmul", std::move(inputs), TransposeB());
  }

  static OpAttributes TransposeB() {
    OpAttributes attributes;
    attributes.set_transpose_b(true);
    return attributes;
  }

  // Appends the logits, the targets and the loss, which ends the graph. `inputs` are x, a weight [V, d] and optionally
  // a bias.
  void Loss(absl::string_view name, std::vector<std::string> inputs, const OpAttributes& targets = {}) {
    std::string logits = Op(name, "matmul", std::move(inputs), TransposeB());
    std::string ids = Op("targets", "targets", {}, targets);
    graph_.set_loss(Op("loss", "cross_entropy", {logits, ids}));
  }

  // Appends `blocks` blocks and the head to the ops written so far, whose last output is `x`, and returns the graph.
  // The ops before the blocks are layer 0, each block is one layer, and the head is the last layer. `block` returns the
  // name of its output. Nothing may be written afterwards.
  ModelGraph Layers(std::string x, int64_t blocks,
                    absl::FunctionRef<std::string(int64_t block, const std::string& x)> block,
                    absl::FunctionRef<void(const std::string& x)> head) {
    for (int64_t b = 0; b < blocks; ++b) {
      ++layer_;
      x = block(b, x);
    }
    ++layer_;
    head(x);
    return std::move(graph_);
  }

 private:
  GraphParameter& Parameter(absl::string_view name, const std::vector<int64_t>& extents) {
    GraphParameter& parameter = *graph_.add_parameters();
    parameter.set_name(std::string(name));
    for (int64_t extent : extents) parameter.add_shape(extent);
    return parameter;
  }

  ModelGraph graph_;
  int layer_ = 0;
};

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_GRAPH_BUILDER_H_
