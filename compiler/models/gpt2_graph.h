// The GPT-2 family as a list of ops: pre-norm blocks of causal attention and a GELU feed-forward layer, learned
// positions, a head that reuses the token embedding unless untied.
#ifndef WEFT_COMPILER_MODELS_GPT2_GRAPH_H_
#define WEFT_COMPILER_MODELS_GPT2_GRAPH_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

struct Gpt2Shape {
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t width = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  // Divides width.
  int64_t heads = 0;
  double epsilon = 1e-5;
  bool tanh_approximation = true;
  double residual_dropout = 0;
  double embedding_dropout = 0;
  double attention_dropout = 0;
  // Standard deviation of weights; residual projections have init / sqrt(2 layers).
  double init = 0.02;
  // q.k is multiplied by 1/sqrt(head size), if set, and by 1/(block + 1), if set.
  bool scale_attention = true;
  bool scale_by_inverse_layer = false;
  bool tied_head = true;
};

ModelGraph BuildGpt2Graph(const Gpt2Shape& shape, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_GPT2_GRAPH_H_
