#include "compiler/models/gpt2_graph.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/graph_builder.h"

namespace weft {
namespace {

class Builder : public GraphBuilder {
 public:
  Builder(const Gpt2Shape& shape, absl::string_view name)
      : GraphBuilder(name, shape.vocabulary, shape.positions), shape_(shape) {}

  std::string Norm(absl::string_view name, const std::string& x) {
    std::string full = absl::StrCat("transformer.", name);
    std::string gamma = Constant(absl::StrCat(full, ".weight"), shape_.width, 1);
    std::string beta = Constant(absl::StrCat(full, ".bias"), shape_.width, 0);
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "layer_norm", {x, gamma, beta}, attributes);
  }

  // Weight [from, to], rows are inputs.
  std::string Conv1d(absl::string_view name, const std::string& x, int64_t from, int64_t to, double normal) {
    std::string full = absl::StrCat("transformer.", name);
    std::string weight = Weight(absl::StrCat(full, ".weight"), {from, to}, normal);
    std::string bias = Constant(absl::StrCat(full, ".bias"), to, 0);
    return Op(name, "matmul", {x, weight, bias});
  }

  std::string Embeddings() {
    std::string wte = Weight("transformer.wte.weight", {shape_.vocabulary, shape_.width}, shape_.init);
    HasVocabularyRows();
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
        Conv1d(absl::StrCat(h, "attn.c_attn"), Norm(absl::StrCat(h, "ln_1"), x), width, 3 * width, shape_.init);
    std::string heads = Op(absl::StrCat(h, "attn.attention"), "attention", {qkv}, attention);
    std::string y = Conv1d(absl::StrCat(h, "attn.c_proj"), heads, width, width, residual);
    y = Dropout(absl::StrCat(h, "attn.resid_dropout"), y, shape_.residual_dropout);
    std::string middle = Op(absl::StrCat(h, "attn.residual"), "add", {x, y});

    std::string wide =
        Conv1d(absl::StrCat(h, "mlp.c_fc"), Norm(absl::StrCat(h, "ln_2"), middle), width, shape_.inner, shape_.init);
    OpAttributes gelu;
    gelu.set_tanh_approximation(shape_.tanh_approximation);
    y = Conv1d(absl::StrCat(h, "mlp.c_proj"), Op(absl::StrCat(h, "mlp.act"), "gelu", {wide}, gelu), shape_.inner, width,
               residual);
    y = Dropout(absl::StrCat(h, "mlp.dropout"), y, shape_.residual_dropout);
    return Op(absl::StrCat(h, "mlp.residual"), "add", {middle, y});
  }

  void Head(const std::string& x) {
    std::string normed = Norm("ln_f", x);
    std::string weight = "transformer.wte.weight";
    if (!shape_.tied_head) {
      weight = Weight("lm_head.weight", {shape_.vocabulary, shape_.width}, shape_.init);
      HasVocabularyRows();
    }
    Loss("lm_head", {normed, weight});
  }

  ModelGraph Build() {
    return Layers(
        Embeddings(), shape_.layers, [this](int64_t block, const std::string& x) { return Block(block, x); },
        [this](const std::string& x) { Head(x); });
  }

 private:
  const Gpt2Shape& shape_;
};

}  // namespace

ModelGraph BuildGpt2Graph(const Gpt2Shape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

}  // namespace weft
