#include "compiler/models/bert_graph.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/graph_builder.h"

namespace weft {
namespace {

class Builder : public GraphBuilder {
 public:
  Builder(const BertShape& shape, absl::string_view name)
      : GraphBuilder(name, shape.vocabulary, shape.positions), shape_(shape) {
    masking_.set_masked_fraction(kBertMaskedFraction);
    masking_.set_mask_token(shape.mask_token);
  }

  // `full` is the parameters' name but for ".weight" and ".bias".
  std::string Norm(const std::string& name, const std::string& full, const std::string& x) {
    const std::string gamma = Constant(full + ".weight", shape_.width, 1);
    OpAttributes attributes;
    attributes.set_epsilon(shape_.epsilon);
    return Op(name, "layer_norm", {x, gamma, Constant(full + ".bias", shape_.width, 0)}, attributes);
  }

  std::string Gelu(const std::string& name, const std::string& x) {
    OpAttributes attributes;
    attributes.set_tanh_approximation(shape_.tanh_approximation);
    return Op(name, "gelu", {x}, attributes);
  }

  std::string Project(const std::string& name, const std::string& x, int64_t from, int64_t to) {
    return Linear(name, "bert.encoder." + name, x, from, to, shape_.init, true);
  }

  std::string Embeddings() {
    const std::string prefix = "bert.embeddings.";
    const std::string words = Weight(prefix + "word_embeddings.weight", {shape_.vocabulary, shape_.width}, shape_.init);
    HasVocabularyRows();
    const std::string positions =
        Weight(prefix + "position_embeddings.weight", {shape_.positions, shape_.width}, shape_.init);
    const std::string types =
        Weight(prefix + "token_type_embeddings.weight", {shape_.types, shape_.width}, shape_.init);
    const std::string tokens = Op("tokens", "tokens", {}, masking_);
    std::string x = Op("embeddings.words", "embedding", {tokens, words});
    const std::string type = Op("embeddings.types", "type_embedding", {types});
    x = Op("embeddings.words_and_types", "add", {x, type});
    const std::string position = Op("embeddings.positions", "position_embedding", {positions});
    x = Norm("embeddings.norm", prefix + "LayerNorm", Op("embeddings.sum", "add", {x, position}));
    return Dropout("embeddings.dropout", x, shape_.hidden_dropout);
  }

  std::string Block(int64_t block, const std::string& x) {
    const int64_t width = shape_.width;
    const std::string h = absl::StrCat("layer.", block, "."), full = absl::StrCat("bert.encoder.", h);
    OpAttributes attention;
    attention.set_heads(shape_.heads);
    attention.set_kv_heads(shape_.heads);
    attention.set_dropout(shape_.attention_dropout);
    attention.set_scale(1 / std::sqrt(static_cast<double>(width / shape_.heads)));

    const std::string q = Project(h + "attention.self.query", x, width, width);
    const std::string k = Project(h + "attention.self.key", x, width, width);
    const std::string v = Project(h + "attention.self.value", x, width, width);
    const std::string heads = Op(h + "attention.self", "attention", {q, k, v}, attention);
    std::string y = Project(h + "attention.output.dense", heads, width, width);
    y = Dropout(h + "attention.output.dropout", y, shape_.hidden_dropout);
    const std::string middle = Norm(h + "attention.output.norm", full + "attention.output.LayerNorm",
                                    Op(h + "attention.output.residual", "add", {y, x}));

    y = Gelu(h + "intermediate.act", Project(h + "intermediate.dense", middle, width, shape_.inner));
    y = Project(h + "output.dense", y, shape_.inner, width);
    y = Dropout(h + "output.dropout", y, shape_.hidden_dropout);
    return Norm(h + "output.norm", full + "output.LayerNorm", Op(h + "output.residual", "add", {y, middle}));
  }

  void Head(std::string x) {
    const std::string prefix = "cls.predictions.";
    x = Linear("predictions.transform.dense", prefix + "transform.dense", x, shape_.width, shape_.width, shape_.init,
               true);
    x = Norm("predictions.transform.norm", prefix + "transform.LayerNorm", Gelu("predictions.transform.act", x));
    std::string weight = "bert.embeddings.word_embeddings.weight";
    if (!shape_.tied_head) {
      weight = Weight(prefix + "decoder.weight", {shape_.vocabulary, shape_.width}, shape_.init);
      HasVocabularyRows();
    }
    const std::string bias = Constant(prefix + "bias", shape_.vocabulary, 0);
    HasVocabularyRows();
    Loss("predictions.decoder", {x, weight, bias}, masking_);
  }

  ModelGraph Build() {
    return Layers(
        Embeddings(), shape_.layers, [this](int64_t block, const std::string& x) { return Block(block, x); },
        [this](const std::string& x) { Head(x); });
  }

 private:
  const BertShape& shape_;
  OpAttributes masking_;
};

}  // namespace

ModelGraph BuildBertGraph(const BertShape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

}  // namespace weft
