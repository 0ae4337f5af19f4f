#include "executor/calibrate/calibrate_kernels.h"

#include <algorithm>
#include <utility>

#include "proto/util/units.h"

namespace weft::exec {
namespace {

using Shapes = CalibrationShapes;

double Bytes(const CaseTensor& tensor) {
  return static_cast<double>(ElementCount(tensor.shape).value_or(0) * DTypeBytes(tensor.dtype));
}

KernelCase Case(Kernel kernel, std::vector<CaseTensor> inputs, std::vector<CaseTensor> outputs) {
  KernelCase result;
  result.step.set_name(Kernel_Name(kernel));
  result.step.set_kernel(kernel);
  for (const CaseTensor& tensor : inputs) result.bytes += Bytes(tensor);
  for (const CaseTensor& tensor : outputs) result.bytes += Bytes(tensor);
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  return result;
}

// The kernel adds to its outputs, so it also reads them.
KernelCase Accumulating(KernelCase kernel) {
  kernel.step.set_accumulate(true);
  for (const CaseTensor& tensor : kernel.outputs) kernel.bytes += Bytes(tensor);
  return kernel;
}

// C[m,n] = op(A) op(B): the forward, input gradient and weight gradient of a linear layer with rows x in -> out. TF32
// uses factors in fp32.
std::vector<KernelCase> LinearLayer(DType of_products, int64_t rows, int64_t in, int64_t out) {
  const double flops = 2.0 * rows * in * out;
  const DType dtype = of_products == TF32 ? FP32 : of_products;
  std::vector<KernelCase> cases;
  cases.push_back(Case(MATMUL, {{dtype, {rows, in}}, {dtype, {in, out}}, {dtype, {out}}}, {{dtype, {rows, out}}}));
  cases.push_back(Case(MATMUL, {{dtype, {rows, out}}, {dtype, {in, out}}}, {{dtype, {rows, in}}}));
  cases.back().step.mutable_attributes()->set_transpose_b(true);
  cases.push_back(Accumulating(Case(MATMUL, {{dtype, {rows, in}}, {dtype, {rows, out}}}, {{dtype, {in, out}}})));
  cases.back().step.mutable_attributes()->set_transpose_a(true);
  for (KernelCase& kernel : cases) {
    kernel.flops = flops;
    kernel.step.mutable_attributes()->set_tf32(of_products == TF32);
  }
  return cases;
}

KernelCase Attention(const Shapes& shapes, bool backward, int64_t rows, int64_t d) {
  const int64_t heads = std::max<int64_t>(1, d / shapes.head_size);
  const CaseTensor qkv{shapes.dtype, {rows, 3 * d}}, o{shapes.dtype, {rows, d}}, lse{FP32, {rows, heads}};
  KernelCase kernel = backward ? Case(ATTENTION_BACKWARD, {o, qkv, o, lse}, {qkv}) : Case(ATTENTION, {qkv}, {o, lse});
  kernel.flops = (backward ? 10.0 : 4.0) * rows * d * shapes.sequence;
  StepAttributes& attributes = *kernel.step.mutable_attributes();
  attributes.set_heads(heads);
  attributes.set_sequence(shapes.sequence);
  attributes.set_causal(true);
  attributes.set_scale(0.17);
  return kernel;
}

// One op of attention that is split into ops: a product of q and k, or of probabilities and v, or the gradients of one
// of these.
KernelCase AttentionProduct(const Shapes& shapes, Kernel kernel, int64_t rows, int64_t d) {
  const int64_t heads = std::max<int64_t>(1, d / shapes.head_size);
  const DType dtype = shapes.dtype;
  const CaseTensor qkv{dtype, {rows, 3 * d}}, o{dtype, {rows, d}}, pairs{dtype, {rows, heads * shapes.sequence}};
  KernelCase result = kernel == ATTENTION_SCORES            ? Case(kernel, {qkv}, {pairs})
                      : kernel == ATTENTION_SCORES_BACKWARD ? Case(kernel, {pairs, qkv}, {qkv})
                      : kernel == ATTENTION_VALUES          ? Case(kernel, {pairs, qkv}, {o})
                                                            : Case(kernel, {o, pairs, qkv}, {pairs, qkv});
  const bool backward = kernel == ATTENTION_SCORES_BACKWARD || kernel == ATTENTION_VALUES_BACKWARD;
  result.flops = (backward ? 4.0 : 2.0) * rows * d * shapes.sequence;
  StepAttributes& attributes = *result.step.mutable_attributes();
  attributes.set_heads(heads);
  attributes.set_sequence(shapes.sequence);
  if (kernel == ATTENTION_SCORES || kernel == ATTENTION_SCORES_BACKWARD) attributes.set_scale(0.17);
  return result;
}

bool IsAttentionProduct(Kernel kernel) {
  return kernel == ATTENTION_SCORES || kernel == ATTENTION_SCORES_BACKWARD || kernel == ATTENTION_VALUES ||
         kernel == ATTENTION_VALUES_BACKWARD;
}

KernelCase Elementwise(const Shapes& shapes, Kernel kernel, Shapes::Extent e) {
  const DType dtype = shapes.dtype;
  const CaseTensor x{dtype, {e.rows, e.d}}, row{dtype, {e.d}}, column{FP32, {e.rows}};
  // Types of weight gradients, and of the optimizer's state.
  const CaseTensor sum{FP32, {e.d}}, state{FP32, {e.rows, e.d}};
  const CaseTensor tokens{INT32, {e.rows}}, table{dtype, {shapes.vocabulary, e.d}};
  const CaseTensor positions{dtype, {shapes.sequence, e.d}}, logits{dtype, {e.rows, shapes.vocabulary}};
  switch (kernel) {
    case LOAD_TOKENS:
    case LOAD_TARGETS:
      return Case(kernel, {}, {tokens});
    case EMBEDDING: {
      KernelCase result = Case(kernel, {tokens, table}, {x});
      // The kernel reads only the rows of the tokens.
      result.bytes = Bytes(tokens) + 2 * Bytes(x);
      return result;
    }
    case EMBEDDING_BACKWARD:
      return Accumulating(Case(kernel, {tokens, x}, {{FP32, table.shape}}));
    case POSITION_EMBEDDING: {
      KernelCase result = Case(kernel, {positions}, {x});
      result.step.mutable_attributes()->set_sequence(shapes.sequence);
      return result;
    }
    case POSITION_EMBEDDING_BACKWARD: {
      KernelCase result = Accumulating(Case(kernel, {x}, {{FP32, positions.shape}}));
      result.step.mutable_attributes()->set_sequence(shapes.sequence);
      return result;
    }
    case ADD:
      return Case(kernel, {x, x}, {x});
    case BIAS_GRADIENT:
      return Accumulating(Case(kernel, {x}, {sum}));
    case LAYER_NORM: {
      KernelCase result = Case(kernel, {x, row, row}, {x, column, column});
      result.step.mutable_attributes()->set_epsilon(1e-5);
      return result;
    }
    case LAYER_NORM_BACKWARD:
      return Case(kernel, {x, x, row, column, column}, {x});
    case LAYER_NORM_BACKWARD_WEIGHT:
      return Accumulating(Case(kernel, {x, x, column, column}, {sum, sum}));
    case GELU:
    case GELU_BACKWARD: {
      KernelCase result = kernel == GELU ? Case(kernel, {x}, {x}) : Case(kernel, {x, x}, {x});
      result.step.mutable_attributes()->set_tanh_approximation(true);
      return result;
    }
    case RMS_NORM: {
      KernelCase result = Case(kernel, {x, row}, {x, column});
      result.step.mutable_attributes()->set_epsilon(1e-5);
      return result;
    }
    case RMS_NORM_BACKWARD:
      return Case(kernel, {x, x, row, column}, {x});
    case RMS_NORM_BACKWARD_WEIGHT:
      return Accumulating(Case(kernel, {x, x, column}, {sum}));
    case ROPE: {
      KernelCase result = Case(kernel, {x}, {x});
      result.step.mutable_attributes()->set_sequence(shapes.sequence);
      result.step.mutable_attributes()->set_head_size(shapes.head_size);
      result.step.mutable_attributes()->set_base(10000);
      result.step.mutable_attributes()->set_magnitude(1);
      return result;
    }
    case SWIGLU:
      return Case(kernel, {x, x}, {x});
    case SWIGLU_BACKWARD:
      return Case(kernel, {x, x, x}, {x, x});
    case DROPOUT: {
      KernelCase result = Case(kernel, {x}, {x});
      result.step.mutable_attributes()->set_dropout(0.1);
      result.step.mutable_attributes()->set_sequence(shapes.sequence);
      return result;
    }
    case DROPOUT_MASK:
    case DROPOUT_BY_MASK: {
      const CaseTensor mask{UINT8, {e.rows, e.d}};
      KernelCase result = kernel == DROPOUT_MASK ? Case(kernel, {x}, {x, mask}) : Case(kernel, {x, mask}, {x});
      result.step.mutable_attributes()->set_dropout(0.1);
      if (kernel == DROPOUT_MASK) result.step.mutable_attributes()->set_sequence(shapes.sequence);
      return result;
    }
    case ATTENTION_SOFTMAX:
    case ATTENTION_SOFTMAX_BACKWARD: {
      KernelCase result = kernel == ATTENTION_SOFTMAX ? Case(kernel, {x}, {x}) : Case(kernel, {x, x}, {x});
      result.step.mutable_attributes()->set_heads(e.d / shapes.sequence);
      result.step.mutable_attributes()->set_sequence(shapes.sequence);
      return result;
    }
    case CROSS_ENTROPY: {
      KernelCase result = Case(kernel, {logits, tokens}, {column, {FP64, {8}}});
      result.step.mutable_attributes()->set_vocabulary(shapes.vocabulary);
      result.step.mutable_attributes()->set_loss_weight(1e-3);
      return result;
    }
    case CROSS_ENTROPY_BACKWARD: {
      KernelCase result = Case(kernel, {logits, column, tokens}, {logits});
      result.step.mutable_attributes()->set_vocabulary(shapes.vocabulary);
      result.step.mutable_attributes()->set_loss_weight(1e-3);
      return result;
    }
    case CAST:
      return Case(kernel, {state}, {{BF16, {e.rows, e.d}}});
    case FILL:
      return Case(kernel, {}, {x});
    case EXACT_ACCUMULATE:
      return Accumulating(Case(kernel, {x}, {{EXACT192, {e.rows, e.d}}}));
    case EXACT_ROUND:
      return Case(kernel, {{EXACT192, {e.rows, e.d}}}, {state});
    case SQUARED_NORM:
      return Case(kernel, {state}, {{FP64, {8}}});
    case NORM_TOTAL: {
      KernelCase result = Case(kernel, {{FP64, {e.rows / 8}}}, {{FP64, {2}}});
      result.step.mutable_attributes()->set_clip_norm(1);
      return result;
    }
    case SCALE:
      return Case(kernel, {{FP64, {2}}, state}, {state});
    case ADAMW: {
      KernelCase result = Case(kernel, {state, state, state, state}, {state, state, state});
      StepAttributes& attributes = *result.step.mutable_attributes();
      attributes.set_beta1(0.9);
      attributes.set_beta2(0.95);
      attributes.set_epsilon(1e-8);
      attributes.set_weight_decay(0.1);
      return result;
    }
    case SGD_STEP:
      return Case(kernel, {state, state}, {state});
    default:
      return {};
  }
}

// As the compiler defines it: the type of the first floating-point input, else of the first output.
DType DTypeOfWork(const KernelCase& kernel) {
  for (const CaseTensor& tensor : kernel.inputs) {
    if (tensor.dtype == FP64 || tensor.dtype == FP32 || tensor.dtype == BF16 || tensor.dtype == FP16) {
      return tensor.dtype;
    }
  }
  return kernel.outputs[0].dtype;
}

}  // namespace

const CalibrationShapes& SmallShapes() {
  static const CalibrationShapes shapes = {
      .dtype = FP32,
      // The vocabulary of bytes, padded.
      .vocabulary = 256,
      .sequence = 128,
      .head_size = 32,
      .products = {{64, 64, 64}, {128, 64, 256}, {128, 128, 512}, {256, 256, 1024}, {512, 512, 2048}},
      .product_dtypes = {},
      .peak_product = {256, 256, 1024},
      .peaks = {FP64, BF16, FP16, TF32},
      .attention = {{128, 64}, {256, 128}, {1024, 256}},
      // 128 KiB, 1 MiB, 8 MiB per tensor.
      .elementwise = {{256, 128}, {1024, 256}, {4096, 512}},
      .turn_bytes = 16 << 20,
  };
  return shapes;
}

const CalibrationShapes& LargeShapes() {
  static const CalibrationShapes shapes = {
      .dtype = BF16,
      .vocabulary = 50304,
      .sequence = 1024,
      .head_size = 128,
      // Layers of GPT-2 124M, 1.5B, Qwen2.5 3B, Llama 8B (attention and feed-forward).
      .products = {{1024, 768, 768}, {4096, 768, 3072}, {8192, 1600, 6400}, {8192, 2048, 11008}, {8192, 4096, 14336}},
      .product_dtypes = {TF32},
      .peak_product = {8192, 4096, 4096},
      .peaks = {FP32, FP16},
      .attention = {{2048, 1024}, {8192, 2048}, {16384, 4096}},
      // 2 MiB, 32 MiB, 128 MiB per tensor.
      .elementwise = {{1024, 1024}, {8192, 2048}, {16384, 4096}},
      // More than a second-level cache.
      .turn_bytes = 512 << 20,
  };
  return shapes;
}

bool HasCases(const CalibrationShapes& shapes, Kernel kernel) {
  return kernel == MATMUL || kernel == ATTENTION || kernel == ATTENTION_BACKWARD || IsAttentionProduct(kernel) ||
         Elementwise(shapes, kernel, shapes.elementwise[0]).step.kernel() == kernel;
}

std::vector<KernelFamily> KernelFamilies(const CalibrationShapes& shapes) {
  std::vector<KernelFamily> families;
  for (int k = KERNEL_UNSPECIFIED + 1; k < Kernel_ARRAYSIZE; ++k) {
    const Kernel kernel = static_cast<Kernel>(k);
    if (!Kernel_IsValid(k) || !HasCases(shapes, kernel)) continue;
    KernelFamily family{.kernel = kernel, .dtype = shapes.dtype, .by_flops = true, .peak_only = false, .sizes = {}};
    if (kernel == MATMUL) {
      std::vector<DType> dtypes = {shapes.dtype};
      dtypes.insert(dtypes.end(), shapes.product_dtypes.begin(), shapes.product_dtypes.end());
      for (const DType dtype : dtypes) {
        if (dtype != shapes.dtype) families.push_back(family);
        family.dtype = dtype;
        family.sizes.clear();
        for (const auto& [rows, in, out] : shapes.products) {
          family.sizes.push_back(LinearLayer(dtype, rows, in, out));
        }
      }
      for (const DType dtype : shapes.peaks) {
        families.push_back(family);
        family = {.kernel = kernel, .dtype = dtype, .by_flops = true, .peak_only = true, .sizes = {}};
        const auto& [rows, in, out] = shapes.peak_product;
        family.sizes = {LinearLayer(dtype, rows, in, out)};
      }
    } else if (kernel == ATTENTION || kernel == ATTENTION_BACKWARD) {
      for (const auto& [rows, d] : shapes.attention) {
        family.sizes.push_back({Attention(shapes, kernel == ATTENTION_BACKWARD, rows, d)});
      }
    } else if (IsAttentionProduct(kernel)) {
      for (const auto& [rows, d] : shapes.attention) {
        family.sizes.push_back({AttentionProduct(shapes, kernel, rows, d)});
      }
    } else {
      family.by_flops = false;
      for (const auto& extent : shapes.elementwise) {
        family.sizes.push_back({Elementwise(shapes, kernel, extent)});
      }
      family.dtype = DTypeOfWork(family.sizes[0][0]);
      // Gradients are cleared and added in fp32, whatever type the activations have.
      if ((kernel == FILL || kernel == ADD) && shapes.dtype != FP32) {
        Shapes of_sums = shapes;
        of_sums.dtype = FP32;
        families.push_back(family);
        family.dtype = FP32;
        family.sizes.clear();
        for (const auto& extent : shapes.elementwise) {
          family.sizes.push_back({Elementwise(of_sums, kernel, extent)});
        }
      }
      // These kernels read gradients in bf16 directly.
      if ((kernel == ADAMW || kernel == SQUARED_NORM) && shapes.dtype == BF16) {
        families.push_back(family);
        family.dtype = BF16;
        for (std::vector<KernelCase>& size : family.sizes) {
          CaseTensor& gradient = size[0].inputs[0];
          size[0].bytes -= Bytes(gradient);
          gradient.dtype = BF16;
          size[0].bytes += Bytes(gradient);
        }
      }
    }
    families.push_back(std::move(family));
  }
  return families;
}

KernelCase SmallestStep() { return Case(FILL, {}, {{FP32, {1}}}); }

}  // namespace weft::exec
