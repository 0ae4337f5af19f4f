// The Llama family as a list of ops: pre-norm blocks of causal attention with rotary positions, grouped heads of keys
// and values, and a gated feed-forward layer. Touvron et al. 2023, arXiv:2302.13971, sec. 2.2 (RMS norm: Zhang and
// Sennrich 2019, arXiv:1910.07467; SwiGLU: Shazeer 2020, arXiv:2002.05202; rotary positions: Su et al. 2021,
// arXiv:2104.09864); grouped heads: Ainslie et al. 2023, arXiv:2305.13245. Mistral (Jiang et al. 2023,
// arXiv:2310.06825) and Qwen2 (Yang et al. 2024, arXiv:2407.10671) are the same with windows and with other biases.
#ifndef WEFT_COMPILER_MODELS_LLAMA_GRAPH_H_
#define WEFT_COMPILER_MODELS_LLAMA_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/models/hf_rope.h"
#include "proto/model_graph.pb.h"

namespace weft {

struct LlamaShape {
  int64_t vocabulary = 0;
  int64_t width = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  // A multiple of kv_heads.
  int64_t heads = 0;
  int64_t kv_heads = 0;
  // Even; heads x head_size need not be the width.
  int64_t head_size = 0;
  RopeShape rope;
  double epsilon = 1e-6;
  double attention_dropout = 0;
  // Standard deviation of weights; residual projections have init / sqrt(2 layers).
  double init = 0.02;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied_head = false;
  // Per layer: keys that a query sees at most; 0 = all before it. Empty = none has a window.
  std::vector<int64_t> windows;
};

ModelGraph BuildLlamaGraph(const LlamaShape& shape, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_LLAMA_GRAPH_H_
