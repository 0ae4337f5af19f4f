// Tests written-out steps of every kernel: steps that a row must accept, and steps that it must refuse. The
// expectations are not derived from the rows, so a mistake in a row is found.
#include <set>
#include <string>
#include <vector>

#include "kernels/check_step_testing.h"
#include "kernels/row.h"

namespace weft::kernels {
namespace {

Tensor F(std::vector<int64_t> shape, int place = -1) { return {FP32, std::move(shape), place}; }
Tensor D(std::vector<int64_t> shape, int place = -1) { return {FP64, std::move(shape), place}; }
Tensor H(std::vector<int64_t> shape) { return {BF16, std::move(shape)}; }
Tensor I(std::vector<int64_t> shape) { return {INT32, std::move(shape)}; }
Tensor U(std::vector<int64_t> shape) { return {UINT8, std::move(shape)}; }
Tensor X(std::vector<int64_t> shape) { return {EXACT192, std::move(shape)}; }

std::vector<Tensor> Tensors(size_t count, const Tensor& tensor) { return std::vector<Tensor>(count, tensor); }
std::vector<Tensor> Tensors(size_t count, const Tensor& tensor, const Tensor& last) {
  std::vector<Tensor> tensors(count, tensor);
  tensors.push_back(last);
  return tensors;
}

struct StepCase {
  Kernel kernel;
  std::vector<Tensor> in, out;
  std::string attributes;
  std::string finding;  // Part of the findings; empty if the step must be accepted.
  std::string rest = {}, program = {};
};

// A microbatch of two images of 2 x 2 pixels.
const char* const kImages = "vocabulary: 0 image_size: 2 image_channels: 3";
const char* const kConvolution = "height: 2 width: 2 stride: 1 kernel_size: 3";
const char* const kAdamW = "beta1: 0.9 beta2: 0.95 epsilon: 1e-8 weight_decay: 0.1";

const std::vector<StepCase>& Products() {
  static const auto* cases = new std::vector<StepCase>{
      {MATMUL, {F({4, 3}), F({3, 5})}, {F({4, 5})}, "", ""},
      {MATMUL, {F({4, 3}), F({3, 5})}, {F({4, 5})}, "", "", "accumulate: true"},
      {MATMUL, {F({3, 4}), F({5, 3}), F({5})}, {F({4, 5})}, "transpose_a: true transpose_b: true", ""},
      {MATMUL, {F({4, 3}), F({3, 5})}, {F({4, 5})}, "tf32: true", "", "", "precision { compute: TF32 }"},
      {MATMUL, {F({4, 3}), F({3, 5})}, {F({5, 4})}, "", "must have shape [4,5]"},
      {MATMUL, {F({4, 3}), F({4, 5})}, {F({4, 5})}, "", "must have shape [3,"},
      {MATMUL, {F({4, 3}), F({4, 5})}, {F({4, 5})}, "transpose_a: true", "must have shape [3,5]"},
      {MATMUL, {F({4, 3}), F({5, 3})}, {F({4, 5})}, "", "must have shape"},
      {MATMUL, {F({4, 3}), F({3, 5}), F({4})}, {F({4, 5})}, "", "must have shape [5]"},
      {MATMUL, {F({4, 3}), F({3, 5})}, {F({4, 5}, 0)}, "", "P2.alias"},
      {MATMUL, {I({4, 3}), F({3, 5})}, {F({4, 5})}, "", "must be fp"},
      {MATMUL, {F({4, 3}), F({3, 5})}, {F({4, 5})}, "tf32: true", "rounds to TF32"},
      {BIAS_GRADIENT, {F({8, 5})}, {F({5})}, "", ""},
      {BIAS_GRADIENT, {F({8, 5})}, {F({8})}, "", "must have shape [5]"},
      {BIAS_ADD, {F({8, 5}), F({5})}, {F({8, 5}, 0)}, "", ""},
      {BIAS_ADD, {F({8, 5}), F({8})}, {F({8, 5})}, "", "must have shape [5]"},
      {CONV2D, {F({8, 3}), F({5, 3, 3, 3}), F({5})}, {F({8, 5})}, kConvolution, ""},
      {CONV2D, {F({8, 3}), F({5, 3, 1})}, {F({2, 5})}, "height: 2 width: 2 stride: 2 kernel_size: 1", ""},
      {CONV2D, {F({8, 3}), F({5, 3, 2, 2})}, {F({8, 5})}, "height: 2 width: 2 stride: 1 kernel_size: 2", "odd"},
      {CONV2D, {F({8, 3}), F({5, 3, 3})}, {F({8, 5})}, kConvolution, "must have shape [5,3,3,3]"},
      {CONV2D, {F({6, 3}), F({5, 3, 3, 3})}, {F({6, 5})}, kConvolution, "whole images"},
      {CONV2D, {F({8, 3}), F({5, 3, 3, 3})}, {F({8, 5})}, "height: 2 width: 2 kernel_size: 3", "stride is 0"},
      {CONV2D, {F({8, 3}), F({5, 3, 3, 3})}, {F({4, 5})}, kConvolution, "must have shape [8,5]"},
      {CONV2D_BACKWARD, {F({8, 5}), F({5, 3, 3, 3})}, {F({8, 3})}, kConvolution, ""},
      {CONV2D_BACKWARD, {F({8, 5}), F({5, 3, 3, 3})}, {F({8, 5})}, kConvolution, "must have shape [5,5,3,3]"},
      {CONV2D_BACKWARD_WEIGHT, {F({8, 5}), F({8, 3})}, {F({5, 3, 3, 3})}, kConvolution, "", "accumulate: true"},
      {CONV2D_BACKWARD_WEIGHT, {F({8, 5}), F({8, 3})}, {F({3, 5, 3, 3})}, kConvolution, "must have shape [5,3,3,3]"},
  };
  return *cases;
}

const std::vector<StepCase>& Norms() {
  const Tensor x = F({8, 6}), gamma = F({6}), row = F({8}), group = F({2, 3}), sums = F({8, 2});
  const std::string groups = "groups: 3 sequence: 4 ", eps = "epsilon: 1e-5 ", rms = "root_mean_square: true ";
  static const auto* cases = new std::vector<StepCase>{
      {LAYER_NORM, {x, gamma, gamma}, {x, row, row}, eps, ""},
      {LAYER_NORM, {x, gamma, gamma}, {x, row, D({8})}, eps, ""},
      {LAYER_NORM, {x, gamma, gamma}, {x, H({8}), row}, eps, "must be fp32"},
      {LAYER_NORM, {x, x, gamma}, {x, row, row}, eps, "must have shape [6]"},
      {LAYER_NORM, {x, gamma, gamma}, {x, row, row}, "epsilon: -1", "epsilon is -1"},
      {LAYER_NORM_BACKWARD, {x, x, gamma, row, row}, {x}, "", ""},
      {LAYER_NORM_BACKWARD, {x, x, gamma, row, gamma}, {x}, "", "must have shape [8]"},
      {LAYER_NORM_BACKWARD_WEIGHT, {x, x, row, row}, {gamma, gamma}, "", "", "accumulate: true"},
      {LAYER_NORM_BACKWARD_WEIGHT, {x, x, row, row}, {F({6}, 0), gamma}, "", "P2.alias"},
      {LAYER_NORM_BACKWARD_WEIGHT, {x, x, row, row}, {gamma, row}, "", "must have shape [6]"},
      {GROUP_NORM, {x, gamma, gamma}, {x, group, group}, groups + eps, ""},
      {GROUP_NORM, {x, gamma, gamma}, {x, F({2, 4}), F({2, 4})}, "groups: 4 sequence: 4", "groups is 4"},
      {GROUP_NORM, {x, gamma, gamma}, {x, group, group}, "groups: 3 sequence: 3", "sequence is 3"},
      {GROUP_NORM, {x, gamma, gamma}, {x, group, F({8, 3})}, groups, "must have shape [2,3]"},
      {GROUP_NORM_BACKWARD, {x, x, gamma, group, group}, {x}, groups, ""},
      {GROUP_NORM_BACKWARD, {x, x, gamma, group, row}, {x}, groups, "must have shape [2,3]"},
      {GROUP_NORM_BACKWARD_WEIGHT, {x, x, group, group}, {gamma, gamma}, groups, ""},
      {GROUP_NORM_BACKWARD_WEIGHT, {x, x, group, group}, {gamma, row}, groups, "must have shape [6]"},
      {NORM_PARTIAL, {x}, {sums}, "", ""},
      {NORM_PARTIAL, {x}, {F({8, 1})}, rms, ""},
      {NORM_PARTIAL, {x}, {sums}, rms, "must have shape [8,1]"},
      {NORM_COMBINE, {F({16, 2})}, {row, row}, eps + "whole_columns: 12", ""},
      {NORM_COMBINE, {F({16, 1})}, {row}, rms + "whole_columns: 12", ""},
      {NORM_COMBINE, {F({16, 2})}, {row, row}, "whole_columns: 13", "whole_columns is 13"},
      {NORM_COMBINE, {F({16, 2})}, {row}, "whole_columns: 12", "1 outputs"},
      {NORM_APPLY, {x, gamma, gamma, row, row}, {x}, "", ""},
      {NORM_APPLY, {x, gamma, row}, {x}, rms, ""},
      {NORM_APPLY, {x, gamma, row}, {x}, "", "has 3 inputs"},
      {NORM_BACKWARD_PARTIAL, {x, x, gamma, row, row}, {sums}, "", ""},
      {NORM_BACKWARD_PARTIAL, {x, x, gamma, row, row}, {row}, "", "must have shape [8,2]"},
      {NORM_BACKWARD_APPLY, {x, x, gamma, row, row, sums}, {x}, "whole_columns: 12", ""},
      {NORM_BACKWARD_APPLY, {x, x, gamma, row, row, sums}, {x}, "whole_columns: 5", "whole_columns is 5"},
  };
  return *cases;
}

const std::vector<StepCase>& Tokens() {
  const Tensor ids = I({8}), x = F({8, 6}), logits = F({8, 50}), row = F({8}), losses = D({3});
  const std::string loss = "vocabulary: 50 loss_weight: 0.5";
  static const auto* cases = new std::vector<StepCase>{
      {LOAD_TOKENS, {}, {ids}, "", ""},
      {LOAD_TOKENS, {}, {I({6})}, "", "whole microbatches"},
      {LOAD_TOKENS, {}, {ids}, "of_backward: true microbatch_offset: 1", ""},
      {LOAD_TARGETS, {}, {ids}, "", ""},
      {LOAD_TARGETS, {}, {row}, "", "must be int32"},
      {EMBEDDING, {ids, F({50, 6})}, {x}, "", ""},
      {EMBEDDING, {row, F({50, 6})}, {x}, "", "must be int32"},
      {EMBEDDING, {ids, F({49, 6})}, {x}, "", "fewer rows than the vocabulary"},
      {EMBEDDING, {ids, F({50, 5})}, {x}, "", "must have shape"},
      {EMBEDDING_BACKWARD, {ids, x}, {F({50, 6})}, "", "", "accumulate: true"},
      {EMBEDDING_BACKWARD, {ids, x}, {F({49, 6})}, "", "fewer rows than the vocabulary"},
      {POSITION_EMBEDDING, {F({4, 6})}, {x}, "sequence: 4", ""},
      {POSITION_EMBEDDING, {F({4, 6})}, {x}, "sequence: 8", "sequence is 8"},
      {POSITION_EMBEDDING_BACKWARD, {x}, {F({4, 6})}, "sequence: 4", ""},
      {POSITION_EMBEDDING_BACKWARD, {x}, {F({4, 6})}, "sequence: 3", "sequence is 3"},
      {CROSS_ENTROPY, {logits, ids}, {row, losses}, loss, ""},
      {CROSS_ENTROPY, {logits, ids}, {row, D({4})}, loss, "must have shape [3]"},
      {CROSS_ENTROPY, {logits, ids}, {row, F({3})}, loss, "must be fp64"},
      {CROSS_ENTROPY, {logits, ids}, {H({8}), losses}, loss, "must be fp32"},
      {CROSS_ENTROPY, {logits, ids}, {row, losses}, "vocabulary: 50 loss_weight: -1", "loss_weight is -1"},
      {CROSS_ENTROPY, {logits, ids}, {row, losses}, "vocabulary: 49", "vocabulary is 49"},
      {CROSS_ENTROPY_BACKWARD, {logits, row, ids}, {logits}, loss, ""},
      {CROSS_ENTROPY_BACKWARD, {logits, row, ids, D({3})}, {logits}, loss, ""},
      {CROSS_ENTROPY_BACKWARD, {logits, row, ids, D({2})}, {logits}, loss, "must have shape [3]"},
      {CROSS_ENTROPY_PARTIAL, {logits, ids}, {F({8, 2})}, "vocabulary: 50", ""},
      {CROSS_ENTROPY_PARTIAL, {logits, ids}, {row}, "vocabulary: 50", "must have shape [8,2]"},
      {CROSS_ENTROPY_COMBINE, {F({16, 2}), ids}, {row, losses}, "loss_weight: 1", ""},
      {CROSS_ENTROPY_COMBINE, {F({15, 2}), ids}, {row, losses}, "loss_weight: 1", "must"},
  };
  return *cases;
}

const std::vector<StepCase>& Attention() {
  const Tensor qkv = F({8, 36}), q = F({8, 12}), kv = F({8, 6}), pairs = F({8, 16}), lse = F({8, 4});
  const std::string fused = "heads: 4 sequence: 4 ", grouped = "heads: 4 kv_heads: 2 sequence: 4 ";
  const std::string rope = "sequence: 4 base: 10000 magnitude: 1 ";
  static const auto* cases = new std::vector<StepCase>{
      {ATTENTION, {q, kv, kv}, {q, lse}, grouped, ""},
      {ATTENTION, {q, kv, kv}, {q, F({8, 2})}, grouped, "must have shape [8,4]"},
      {ATTENTION, {qkv}, {q, lse}, "heads: 4 sequence: 2 dropout: 0.1", "sequence must be the recipe's"},
      {ATTENTION_BACKWARD, {q, qkv, q, lse}, {qkv}, fused, ""},
      {ATTENTION_BACKWARD, {q, qkv, q, F({8, 3})}, {qkv}, fused, "must have shape [8,4]"},
      {ATTENTION_SCORES, {qkv}, {pairs}, fused, ""},
      {ATTENTION_SCORES, {qkv}, {q}, fused, "must have shape [8,16]"},
      {ATTENTION_SCORES_BACKWARD, {pairs, qkv}, {qkv}, fused, ""},
      {ATTENTION_SCORES_BACKWARD, {q, qkv}, {qkv}, fused, "must have shape [8,16]"},
      {ATTENTION_SOFTMAX, {pairs}, {F({8, 16}, 0)}, fused, ""},
      {ATTENTION_SOFTMAX, {pairs}, {q}, fused, "must have the shape of"},
      {ATTENTION_SOFTMAX_BACKWARD, {pairs, pairs}, {F({8, 16}, 0)}, fused, ""},
      {ATTENTION_SOFTMAX_BACKWARD, {pairs, pairs}, {F({8, 16}, 1)}, fused, "P2.alias"},
      {ATTENTION_VALUES, {pairs, qkv}, {q}, fused, ""},
      {ATTENTION_VALUES, {pairs, qkv}, {kv}, fused, "must have shape [8,12]"},
      {ATTENTION_VALUES_BACKWARD, {q, pairs, kv}, {pairs, kv}, grouped, ""},
      {ATTENTION_VALUES_BACKWARD, {q, pairs, kv}, {q, kv}, grouped, "must have the shape of"},
      {ROPE, {q}, {q}, rope + "head_size: 6", ""},
      {ROPE, {F({8, 9})}, {F({8, 9})}, rope + "head_size: 3", "head_size is 3"},
      {ROPE, {q}, {q}, "sequence: 4 base: 1 magnitude: 1 head_size: 6", "base is 1"},
      {DROPOUT, {q}, {q}, "dropout: 0.5", ""},
      {DROPOUT, {q}, {q}, "dropout: 1", "dropout is 1"},
      {DROPOUT, {q}, {F({8, 12}, 0)}, "dropout: 0.5", "P2.alias"},
      {DROPOUT_MASK, {q}, {q, U({8, 12})}, "dropout: 0.5", ""},
      {DROPOUT_MASK, {q}, {q, q}, "dropout: 0.5", "must be uint8"},
      {DROPOUT_BY_MASK, {q, U({8, 12})}, {q}, "dropout: 0.5", ""},
      {DROPOUT_BY_MASK, {q, U({8, 11})}, {q}, "dropout: 0.5", "must have the shape of"},
  };
  return *cases;
}

const std::vector<StepCase>& Pointwise() {
  const Tensor x = F({8, 6}), y = F({8, 5});
  static const auto* cases = new std::vector<StepCase>{
      {ADD, {x, x}, {F({8, 6}, 0)}, "", ""},
      {ADD, {X({8}), X({8})}, {X({8})}, "", ""},
      {ADD, {X({8}), F({8})}, {X({8})}, "", "must be exact192"},
      {ADD, {x, y}, {x}, "", "must have the shape of"},
      {CAST, {x}, {H({8, 6})}, "", ""},
      {CAST, {x}, {y}, "", "must have the shape of"},
      {FILL, {}, {x}, "value: 2", ""},
      {FILL, {}, {I({8})}, "", "must be"},
      {SCALE, {D({2}), x}, {F({8, 6}, 1)}, "", ""},
      {SCALE, {D({3}), x}, {x}, "", "must have shape [2]"},
      {GELU, {x}, {x}, "tanh_approximation: true", ""},
      {SILU, {x}, {x}, "tanh_approximation: true", "does not read attribute tanh_approximation"},
      {EXACT_ACCUMULATE, {x}, {X({8, 6})}, "", ""},
      {EXACT_ACCUMULATE, {x}, {D({8, 6})}, "", "must be exact192"},
      {EXACT_ROUND, {X({8, 6})}, {x}, "", ""},
      {EXACT_ROUND, {x}, {x}, "", "must be exact192"},
  };
  return *cases;
}

// Good and bad steps of each formula in pointwise.def. In a good step all tensors have one shape.
const std::vector<StepCase>& Formulas() {
  const Tensor x = F({8, 6}), other = F({8, 5}), same_place = F({8, 6}, 0);
  static const auto* cases = new std::vector<StepCase>{
#define POINTWISE(op, inputs, outputs, kernel, when)                                              \
  {kernel, Tensors(inputs, x), Tensors(outputs, x), "", ""},                                      \
      {kernel, Tensors(inputs, x), Tensors(outputs - 1, x, other), "", "must have the shape of"}, \
      {kernel, Tensors(inputs - 1, x, other), Tensors(outputs, x), "", "must have the shape of"}, \
      {kernel, Tensors(inputs, x), Tensors(outputs - 1, x, same_place), "", "P2.alias"},          \
      {kernel, Tensors(inputs, x, x), Tensors(outputs, x), "", "inputs"},
#include "kernels/pointwise.def"
#undef POINTWISE
  };
  return *cases;
}

const std::vector<StepCase>& Optimizers() {
  const Tensor g = F({8});
  const std::string momentum = "momentum: 0.9", of_sgd = "recipe { sgd { momentum: 0.9 } }";
  const std::string scale = "loss_scale: 1024 growth_interval: 5";
  static const auto* cases = new std::vector<StepCase>{
      {SQUARED_NORM, {g}, {D({7})}, "slot: 6", ""},
      {SQUARED_NORM, {g}, {D({7})}, "slot: 7", "slot is 7"},
      {SQUARED_NORM, {g}, {F({7})}, "", "must be fp64"},
      {SQUARED_NORM, {g}, {D({7})}, "counted_once: 'q'", "counted_once names axis 'q'"},
      {NORM_TOTAL, {D({7})}, {D({2})}, "clip_norm: 1 loss_scale: 8", ""},
      {NORM_TOTAL, {D({7}), D({3})}, {D({2})}, "clip_norm: 1", ""},
      {NORM_TOTAL, {D({7}), D({3})}, {D({2})}, "loss_scale: 8", "loss_scale is 8"},
      {NORM_TOTAL, {D({7})}, {D({2})}, "clip_norm: -1", "clip_norm is -1"},
      {UPDATE_LOSS_SCALE, {D({2}), D({3})}, {D({3}, 1)}, scale, ""},
      {UPDATE_LOSS_SCALE, {D({2}), D({3})}, {D({3})}, scale, "must be"},
      {UPDATE_LOSS_SCALE, {D({2}), D({3})}, {D({3}, 1)}, "loss_scale: 0.5 growth_interval: 5", "loss_scale is 0.5"},
      {ADAMW, {g, g, g, g}, {F({8}, 1), F({8}, 2), F({8}, 3)}, kAdamW, ""},
      {ADAMW, {g, g, g, g, D({2}), D({3})}, {F({8}, 1), F({8}, 2), F({8}, 3), H({8})}, kAdamW, ""},
      {ADAMW, {g, g, g, g, D({3})}, {F({8}, 1), F({8}, 2), F({8}, 3)}, kAdamW, "must have shape [2]"},
      {ADAMW, {g, g, g, g}, {g, F({8}, 2), F({8}, 3)}, kAdamW, "must be"},
      {ADAMW, {g, g, g, g}, {F({8}, 1), F({8}, 3), F({8}, 2)}, kAdamW, "must be"},
      {ADAMW, {g, g, g, F({7})}, {F({8}, 1), F({8}, 2), F({7}, 3)}, kAdamW, "must have the shape of"},
      {ADAMW, {g, g, g, g}, {F({8}, 1), F({8}, 2), F({8}, 3)}, "beta1: 1", "beta1 is 1"},
      {ADAMW, {g, g, g, g}, {F({8}, 1), F({8}, 2), F({8}, 3)}, kAdamW, "the recipe has sgd", "", of_sgd},
      {SGD_STEP, {g, g}, {F({8}, 1)}, "weight_decay: 0.1", ""},
      {SGD_STEP, {g, g, g}, {F({8}, 1), F({8}, 2)}, momentum, "", "", of_sgd},
      {SGD_STEP, {g, g, g}, {F({8}, 1), F({8}, 2)}, "momentum: 0.5", "momentum is 0.5", "", of_sgd},
      {SGD_STEP, {g, g}, {F({8}, 1)}, momentum, "has 2 inputs"},
      {SGD_STEP, {g, g}, {F({8}, 1), H({8})}, "rounding_site: 1", "rounding_site is 1"},
  };
  return *cases;
}

const std::vector<StepCase>& Images() {
  const Tensor x = F({8, 6}), rgb = F({8, 3}), e = F({2, 6}), e2 = F({2, 12}), losses = D({3});
  const std::string steps = "diffusion_steps: 1000 ", sequence = "sequence: 4 ";
  static const auto* cases = new std::vector<StepCase>{
      {LOAD_TIMESTEPS, {}, {I({2})}, steps, "", "", kImages},
      {LOAD_TIMESTEPS, {}, {I({2})}, "", "diffusion_steps is 0", "", kImages},
      {LOAD_NOISY_IMAGE, {}, {rgb}, sequence + steps + "cosine_schedule: true", "", "", kImages},
      {LOAD_NOISY_IMAGE, {}, {rgb}, sequence + steps, "loads images"},
      {LOAD_NOISE, {}, {rgb}, sequence, "", "", kImages},
      {LOAD_NOISE, {}, {x}, sequence, "must have shape", "", kImages},
      {TIMESTEP_EMBEDDING, {I({2})}, {e}, "timestep_scale: 1", ""},
      {TIMESTEP_EMBEDDING, {I({2})}, {e}, "", "timestep_scale is 0"},
      {CONCAT_COLUMNS, {x, rgb}, {F({8, 9})}, "", ""},
      {CONCAT_COLUMNS, {x, rgb}, {F({8, 8})}, "", "must have shape [8,9]"},
      {SLICE_COLUMNS, {x}, {F({8, 2})}, "first_column: 4", ""},
      {SLICE_COLUMNS, {x}, {F({4, 2})}, "first_column: 10 groups: 2", ""},
      {SLICE_COLUMNS, {x}, {F({8, 2})}, "first_column: 5", "first_column is 5"},
      {SLICE_COLUMNS, {x}, {F({8, 2})}, "first_column: -1", "first_column is -1"},
      {SLICE_COLUMNS, {x}, {F({2, 2})}, "groups: 2", "must have shape [4,2]"},
      {UPSAMPLE, {rgb}, {F({32, 3})}, "height: 2 width: 2", ""},
      {UPSAMPLE, {rgb}, {F({32, 3})}, "height: -2 width: 2", "height is -2"},
      // A product of sides that overflows to 0.
      {UPSAMPLE, {rgb}, {F({32, 3})}, "height: 4611686018427387904 width: 4", "height is 4611686018427387904"},
      {UPSAMPLE, {F({6, 3})}, {F({24, 3})}, "height: 2 width: 2", "whole images"},
      {UPSAMPLE_BACKWARD, {F({32, 3})}, {rgb}, "height: 2 width: 2", ""},
      {UPSAMPLE_BACKWARD, {F({16, 3})}, {rgb}, "height: 2 width: 2", "must have shape [32,3]"},
      {ADD_PER_SAMPLE, {x, e}, {x}, sequence, ""},
      {ADD_PER_SAMPLE, {x, x}, {x}, sequence, "must have shape [2,6]"},
      {SUM_PER_SAMPLE, {x}, {e}, sequence, ""},
      {SUM_PER_SAMPLE, {x}, {e}, "sequence: 3", "sequence is 3"},
      {SUM_PER_SAMPLE, {x}, {e}, "", "sequence is 0"},
      {SCALE_SHIFT, {x, e2}, {x}, sequence, ""},
      {SCALE_SHIFT, {x, e}, {x}, sequence, "must have shape [2,12]"},
      {SCALE_SHIFT_BACKWARD, {x, e2}, {x}, sequence, ""},
      {SCALE_SHIFT_BACKWARD, {x, e2}, {rgb}, sequence, "must have the shape of"},
      {SCALE_SHIFT_BACKWARD_SAMPLE, {x, x}, {e2}, sequence, ""},
      {SCALE_SHIFT_BACKWARD_SAMPLE, {x, x}, {e}, sequence, "must have shape [2,12]"},
      {SQUARED_ERROR, {rgb, rgb}, {losses}, "sequence: 4 loss_weight: 1", "", "", kImages},
      {SQUARED_ERROR,
       {F({6, 3}), F({6, 3})},
       {losses},
       "sequence: 4 loss_weight: 1",
       "whole microbatches",
       "",
       kImages},
      {SQUARED_ERROR_BACKWARD, {rgb, rgb, D({3})}, {rgb}, "loss_weight: 1", ""},
      {SQUARED_ERROR_BACKWARD, {rgb, x}, {rgb}, "", "must have the shape of"},
  };
  return *cases;
}

const std::vector<StepCase>& Collectives() {
  const Tensor x = F({8}), both = F({8, 2});
  const std::string mesh = "mesh { axes { name: 'data' size: 2 } }";
  const std::string rest = "stream: COLLECTIVE collective { purpose: TENSOR algorithm: 'ring' ";
  const std::string sum = rest + "group { axes { axis: 'data' } } }";
  static const auto* cases = new std::vector<StepCase>{
      {GROUP_ALL_REDUCE, {x, both}, {F({8}, 0), both}, "", "", sum, mesh},
      {GROUP_ALL_REDUCE, {x}, {both}, "", "must have the same number of elements", sum, mesh},
      {GROUP_ALL_REDUCE, {x}, {x}, "", "P8.group", rest + "group { axes { axis: 'q' } } }", mesh},
      {GROUP_ALL_GATHER, {x}, {both}, "", "", sum, mesh},
      {GROUP_ALL_GATHER, {x}, {x}, "", "must", sum, mesh},
      {GROUP_REDUCE_SCATTER, {both}, {x}, "", "", sum, mesh},
      {GROUP_REDUCE_SCATTER, {x}, {x}, "", "must", sum, mesh},
  };
  return *cases;
}

class StepsTest : public testing::TestWithParam<const std::vector<StepCase>*> {};

TEST_P(StepsTest, AreAcceptedOrRefused) {
  for (const StepCase& c : *GetParam()) {
    SCOPED_TRACE(absl::StrCat(Kernel_Name(c.kernel), " ", c.attributes));
    const std::string findings = FindingsOf(c.kernel, c.in, c.out, c.attributes, c.rest, c.program);
    if (c.finding.empty()) {
      EXPECT_EQ(findings, "");
    } else {
      ExpectFinding(findings, c.finding);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StepsTest,
                         testing::Values(&Products(), &Norms(), &Tokens(), &Attention(), &Pointwise(), &Formulas(),
                                         &Optimizers(), &Images(), &Collectives()));

// RMS_NORM and its backwards are in transformer_steps_test.cc.
TEST(StepsCoverageTest, EveryKernelHasGoodAndBadSteps) {
  std::set<Kernel> good = {RMS_NORM, RMS_NORM_BACKWARD, RMS_NORM_BACKWARD_WEIGHT}, bad = good;
  for (const auto* cases : {&Products(), &Norms(), &Tokens(), &Attention(), &Pointwise(), &Formulas(), &Optimizers(),
                            &Images(), &Collectives()}) {
    for (const StepCase& c : *cases) (c.finding.empty() ? good : bad).insert(c.kernel);
  }
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const Kernel kernel = static_cast<Kernel>(Kernel_descriptor()->value(i)->number());
    if (kernel == KERNEL_UNSPECIFIED) continue;
    EXPECT_TRUE(good.count(kernel)) << "no step of " << Kernel_Name(kernel) << " that is accepted";
    EXPECT_TRUE(bad.count(kernel)) << "no step of " << Kernel_Name(kernel) << " that is refused";
  }
}

}  // namespace
}  // namespace weft::kernels
