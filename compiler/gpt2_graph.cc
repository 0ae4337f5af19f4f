#include "compiler/gpt2_graph.h"

#include <cmath>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

// Appends ops of one graph. Every op has one output, which bears the op's name.
class Builder {
 public:
  Builder(const Gpt2Shape& shape, absl::string_view name) : shape_(shape) {
    graph_.set_name(std::string(name));
    graph_.set_vocabulary(shape.vocabulary);
    graph_.set_maximum_positions(shape.positions);
  }

  std::string Op(absl::string_view name, absl::string_view kind, std::initializer_list<std::string> inputs,
                 const OpAttributes& attributes = {}) {
    GraphOp& op = *graph_.add_ops();
    op.set_name(std::string(name));
    op.set_kind(std::string(kind));
    for (const std::string& input : inputs) op.add_inputs(input);
    op.add_outputs(std::string(name));
    op.set_layer(layer_);
    if (attributes.ByteSizeLong() > 0) *op.mutable_attributes() = attributes;
    return std::string(name);
  }

  std::string Weight(absl::string_view name, std::initializer_list<int64_t> extents, double normal) {
    GraphParameter& parameter = AddParameter(name, extents);
    parameter.mutable_init()->set_normal(normal);
    return parameter.name();
  }

  std::string Constant(absl::string_view name, int64_t extent, double value) {
    GraphParameter& parameter = AddParameter(name, {extent});
    parameter.mutable_init()->set_constant(value);
    return parameter.name();
  }

  std::string Norm(absl::string_view name, const std::string& x) {
    std::string full = absl::StrCat("transformer.", name);
    std::string gamma = Constant(absl::StrCat(full, ".weight"), shape_.width, 1);
    std::string beta = Constant(absl::StrCat(full, ".bias"), shape_.width, 0);
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "layer_norm", {x, gamma, beta}, attributes);
  }

  // Weight [from, to], rows are inputs.
  std::string Linear(absl::string_view name, const std::string& x, int64_t from, int64_t to, double normal) {
    std::string full = absl::StrCat("transformer.", name);
    std::string weight = Weight(absl::StrCat(full, ".weight"), {from, to}, normal);
    std::string bias = Constant(absl::StrCat(full, ".bias"), to, 0);
    return Op(name, "matmul", {x, weight, bias});
  }

  std::string Dropout(absl::string_view name, const std::string& x, double probability) {
    OpAttributes attributes;
    attributes.set_dropout(probability);
    return Op(name, "dropout", {x}, attributes);
  }

  std::string Embeddings() {
    std::string wte = Weight("transformer.wte.weight", {shape_.vocabulary, shape_.width}, shape_.init);
    graph_.mutable_parameters(0)->set_vocabulary_rows(true);
    std::string wpe = Weight("transformer.wpe.weight", {shape_.positions, shape_.width}, shape_.init);
    std::string tokens = Op("tokens", "tokens", {});
    std::string x = Op("wte", "embedding", {tokens, wte});
    std::string positions = Op("wpe", "position_embedding", {wpe});
    return Dropout("drop", Op("embeddings", "add", {x, positions}), shape_.embedding_dropout);
  }

  std::string Block(int64_t block, const std::string& x) {
    const int64_t width = shape_.width;
    const double residual = shape_.init / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    std::string h = absl::StrCat("h.", block, ".");
    OpAttributes attention;
    attention.set_heads(shape_.heads);
    attention.set_causal(true);
    attention.set_dropout(shape_.attention_dropout);
    double scale = shape_.scale_attention ? 1 / std::sqrt(static_cast<double>(width / shape_.heads)) : 1;
    if (shape_.scale_by_inverse_layer) scale /= static_cast<double>(block + 1);
    attention.set_scale(scale);

    std::string qkv =
        Linear(absl::StrCat(h, "attn.c_attn"), Norm(absl::StrCat(h, "ln_1"), x), width, 3 * width, shape_.init);
    std::string heads = Op(absl::StrCat(h, "attn.attention"), "attention", {qkv}, attention);
    std::string y = Linear(absl::StrCat(h, "attn.c_proj"), heads, width, width, residual);
    y = Dropout(absl::StrCat(h, "attn.resid_dropout"), y, shape_.residual_dropout);
    std::string middle = Op(absl::StrCat(h, "attn.residual"), "add", {x, y});

    std::string wide =
        Linear(absl::StrCat(h, "mlp.c_fc"), Norm(absl::StrCat(h, "ln_2"), middle), width, shape_.inner, shape_.init);
    OpAttributes gelu;
    gelu.set_tanh_approximation(shape_.tanh_approximation);
    y = Linear(absl::StrCat(h, "mlp.c_proj"), Op(absl::StrCat(h, "mlp.act"), "gelu", {wide}, gelu), shape_.inner, width,
               residual);
    y = Dropout(absl::StrCat(h, "mlp.dropout"), y, shape_.residual_dropout);
    return Op(absl::StrCat(h, "mlp.residual"), "add", {middle, y});
  }

  void Head(const std::string& x) {
    std::string normed = Norm("ln_f", x);
    std::string weight = "transformer.wte.weight";
    if (!shape_.tied_head) {
      weight = Weight("lm_head.weight", {shape_.vocabulary, shape_.width}, shape_.init);
      graph_.mutable_parameters(graph_.parameters_size() - 1)->set_vocabulary_rows(true);
    }
    OpAttributes transpose;
    transpose.set_transpose_b(true);
    std::string logits = Op("lm_head", "matmul", {normed, weight}, transpose);
    std::string targets = Op("targets", "targets", {});
    graph_.set_loss(Op("loss", "cross_entropy", {logits, targets}));
  }

  ModelGraph Build() {
    std::string x = Embeddings();
    for (int64_t block = 0; block < shape_.layers; ++block) {
      ++layer_;
      x = Block(block, x);
    }
    ++layer_;
    Head(x);
    return std::move(graph_);
  }

 private:
  GraphParameter& AddParameter(absl::string_view name, std::initializer_list<int64_t> extents) {
    GraphParameter& parameter = *graph_.add_parameters();
    parameter.set_name(std::string(name));
    for (int64_t extent : extents) parameter.add_shape(extent);
    return parameter;
  }

  const Gpt2Shape& shape_;
  ModelGraph graph_;
  int layer_ = 0;
};

}  // namespace

ModelGraph BuildGpt2Graph(const Gpt2Shape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

}  // namespace weft
