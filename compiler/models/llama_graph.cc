#include "compiler/models/llama_graph.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/graph_builder.h"

namespace weft {
namespace {

constexpr char kEmbeddings[] = "model.embed_tokens.weight";

class Builder : public GraphBuilder {
 public:
  Builder(const LlamaShape& shape, absl::string_view name)
      : GraphBuilder(name, shape.vocabulary, shape.rope.positions), shape_(shape) {}

  std::string Norm(absl::string_view name, const std::string& x) {
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "rms_norm", {x, Constant(absl::StrCat("model.", name, ".weight"), shape_.width, 1)}, attributes);
  }

  std::string Project(const std::string& name, const std::string& x, int64_t from, int64_t to, double normal,
                      bool bias) {
    return Linear(name, absl::StrCat("model.", name), x, from, to, normal, bias);
  }

  std::string Block(int64_t block, const std::string& x) {
    const double init = shape_.init, residual = init / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    const int64_t width = shape_.width, q_width = shape_.heads * shape_.head_size;
    const int64_t kv_width = shape_.kv_heads * shape_.head_size;
    const std::string h = absl::StrCat("layers.", block, ".");
    OpAttributes attention;
    attention.set_heads(shape_.heads);
    attention.set_kv_heads(shape_.kv_heads);
    attention.set_causal(true);
    attention.set_dropout(shape_.attention_dropout);
    attention.set_scale(1 / std::sqrt(static_cast<double>(shape_.head_size)));
    if (!shape_.windows.empty()) attention.set_window(shape_.windows[static_cast<size_t>(block)]);

    const std::string normed = Norm(h + "input_layernorm", x);
    std::string q = Project(h + "self_attn.q_proj", normed, width, q_width, init, shape_.qkv_bias);
    std::string k = Project(h + "self_attn.k_proj", normed, width, kv_width, init, shape_.qkv_bias);
    const std::string v = Project(h + "self_attn.v_proj", normed, width, kv_width, init, shape_.qkv_bias);
    q = Op(h + "self_attn.q_rope", "rope", {q}, shape_.rope.attributes);
    k = Op(h + "self_attn.k_rope", "rope", {k}, shape_.rope.attributes);
    const std::string heads = Op(h + "self_attn.attention", "attention", {q, k, v}, attention);
    std::string y = Project(h + "self_attn.o_proj", heads, q_width, width, residual, shape_.output_bias);
    const std::string middle = Op(h + "self_attn.residual", "add", {x, y});

    const std::string inside = Norm(h + "post_attention_layernorm", middle);
    const std::string gate = Project(h + "mlp.gate_proj", inside, width, shape_.inner, init, shape_.mlp_bias);
    const std::string up = Project(h + "mlp.up_proj", inside, width, shape_.inner, init, shape_.mlp_bias);
    y = Project(h + "mlp.down_proj", Op(h + "mlp.swiglu", "swiglu", {gate, up}), shape_.inner, width, residual,
                shape_.mlp_bias);
    return Op(h + "mlp.residual", "add", {middle, y});
  }

  std::string Embeddings() {
    const std::string weight = Weight(kEmbeddings, {shape_.vocabulary, shape_.width}, shape_.init);
    HasVocabularyRows();
    const std::string tokens = Op("tokens", "tokens", {});
    return Op("embed_tokens", "embedding", {tokens, weight});
  }

  void Head(const std::string& x) {
    const std::string normed = Norm("norm", x);
    std::string weight = kEmbeddings;
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
  const LlamaShape& shape_;
};

}  // namespace

ModelGraph BuildLlamaGraph(const LlamaShape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

}  // namespace weft
