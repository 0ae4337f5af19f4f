// BERT as a list of ops: post-norm blocks of attention that sees the whole sequence, learned positions and token types,
// a head that predicts masked tokens. Devlin et al. 2018, arXiv:1810.04805.
#ifndef WEFT_COMPILER_MODELS_BERT_GRAPH_H_
#define WEFT_COMPILER_MODELS_BERT_GRAPH_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

struct BertShape {
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t types = 0;
  int64_t width = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  // Divides width.
  int64_t heads = 0;
  double epsilon = 1e-12;
  bool tanh_approximation = false;
  double hidden_dropout = 0;
  double attention_dropout = 0;
  // Standard deviation of weights.
  double init = 0.02;
  bool tied_head = true;
  int64_t mask_token = 0;
};

// Sec. 3.1: 15 % of the tokens of a sequence are predicted.
inline constexpr double kBertMaskedFraction = 0.15;

ModelGraph BuildBertGraph(const BertShape& shape, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_BERT_GRAPH_H_
