#include "executor/calibrate_kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/units.h"

namespace weft {
namespace {

// Token ids below this occur; the vocabulary of bytes, padded.
constexpr int64_t kVocabulary = 256;
constexpr int64_t kSequence = 128;

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

// Adds to what the outputs hold: they are read as well.
KernelCase Accumulating(KernelCase kernel) {
  kernel.step.set_accumulate(true);
  for (const CaseTensor& tensor : kernel.outputs) kernel.bytes += Bytes(tensor);
  return kernel;
}

// C[m,n] = op(A) op(B), as forward, input gradient and weight gradient of a linear layer with rows x in -> out.
std::vector<KernelCase> LinearLayer(DType dtype, int64_t rows, int64_t in, int64_t out) {
  const double flops = 2.0 * rows * in * out;
  std::vector<KernelCase> cases;
  cases.push_back(Case(MATMUL, {{dtype, {rows, in}}, {dtype, {in, out}}, {dtype, {out}}}, {{dtype, {rows, out}}}));
  cases.push_back(Case(MATMUL, {{dtype, {rows, out}}, {dtype, {in, out}}}, {{dtype, {rows, in}}}));
  cases.back().step.mutable_attributes()->set_transpose_b(true);
  cases.push_back(Accumulating(Case(MATMUL, {{dtype, {rows, in}}, {dtype, {rows, out}}}, {{dtype, {in, out}}})));
  cases.back().step.mutable_attributes()->set_transpose_a(true);
  for (KernelCase& kernel : cases) kernel.flops = flops;
  return cases;
}

KernelCase Attention(bool backward, int64_t rows, int64_t d) {
  const int64_t heads = std::max<int64_t>(1, d / 32);
  const CaseTensor qkv{FP32, {rows, 3 * d}}, o{FP32, {rows, d}}, lse{FP32, {rows, heads}};
  KernelCase kernel = backward ? Case(ATTENTION_BACKWARD, {o, qkv, o, lse}, {qkv}) : Case(ATTENTION, {qkv}, {o, lse});
  kernel.flops = (backward ? 10.0 : 4.0) * rows * d * kSequence;
  StepAttributes& attributes = *kernel.step.mutable_attributes();
  attributes.set_heads(heads);
  attributes.set_sequence(kSequence);
  attributes.set_causal(true);
  attributes.set_scale(0.17);
  return kernel;
}

// Of attention as ops of its own: a product of q and k, or of probabilities and v, or the gradients of one.
KernelCase AttentionProduct(Kernel kernel, int64_t rows, int64_t d) {
  const int64_t heads = std::max<int64_t>(1, d / 32);
  const CaseTensor qkv{FP32, {rows, 3 * d}}, o{FP32, {rows, d}}, pairs{FP32, {rows, heads * kSequence}};
  KernelCase result = kernel == ATTENTION_SCORES            ? Case(kernel, {qkv}, {pairs})
                      : kernel == ATTENTION_SCORES_BACKWARD ? Case(kernel, {pairs, qkv}, {qkv})
                      : kernel == ATTENTION_VALUES          ? Case(kernel, {pairs, qkv}, {o})
                                                            : Case(kernel, {o, pairs, qkv}, {pairs, qkv});
  const bool backward = kernel == ATTENTION_SCORES_BACKWARD || kernel == ATTENTION_VALUES_BACKWARD;
  result.flops = (backward ? 4.0 : 2.0) * rows * d * kSequence;
  StepAttributes& attributes = *result.step.mutable_attributes();
  attributes.set_heads(heads);
  attributes.set_sequence(kSequence);
  if (kernel == ATTENTION_SCORES || kernel == ATTENTION_SCORES_BACKWARD) attributes.set_scale(0.17);
  return result;
}

bool IsAttentionProduct(Kernel kernel) {
  return kernel == ATTENTION_SCORES || kernel == ATTENTION_SCORES_BACKWARD || kernel == ATTENTION_VALUES ||
         kernel == ATTENTION_VALUES_BACKWARD;
}

// rows x d of the three sizes of bandwidth-bound kernels: 128 KiB, 1 MiB, 8 MiB per fp32 tensor.
struct Extent {
  int64_t rows, d;
};
constexpr Extent kExtents[] = {{256, 128}, {1024, 256}, {4096, 512}};

KernelCase Elementwise(Kernel kernel, Extent e) {
  const CaseTensor x{FP32, {e.rows, e.d}}, row{FP32, {e.d}}, column{FP32, {e.rows}};
  const CaseTensor tokens{INT32, {e.rows}}, table{FP32, {kVocabulary, e.d}}, positions{FP32, {kSequence, e.d}};
  const CaseTensor logits{FP32, {e.rows, kVocabulary}};
  switch (kernel) {
    case LOAD_TOKENS:
    case LOAD_TARGETS:
      return Case(kernel, {}, {tokens});
    case EMBEDDING: {
      KernelCase result = Case(kernel, {tokens, table}, {x});
      // Only the rows of the tokens are read.
      result.bytes = Bytes(tokens) + 2 * Bytes(x);
      return result;
    }
    case EMBEDDING_BACKWARD:
      return Accumulating(Case(kernel, {tokens, x}, {table}));
    case POSITION_EMBEDDING: {
      KernelCase result = Case(kernel, {positions}, {x});
      result.step.mutable_attributes()->set_sequence(kSequence);
      return result;
    }
    case POSITION_EMBEDDING_BACKWARD: {
      KernelCase result = Accumulating(Case(kernel, {x}, {positions}));
      result.step.mutable_attributes()->set_sequence(kSequence);
      return result;
    }
    case ADD:
      return Case(kernel, {x, x}, {x});
    case BIAS_GRADIENT:
      return Accumulating(Case(kernel, {x}, {row}));
    case LAYER_NORM: {
      KernelCase result = Case(kernel, {x, row, row}, {x, column, column});
      result.step.mutable_attributes()->set_epsilon(1e-5);
      return result;
    }
    case LAYER_NORM_BACKWARD:
      return Case(kernel, {x, x, row, column, column}, {x});
    case LAYER_NORM_BACKWARD_WEIGHT:
      return Accumulating(Case(kernel, {x, x, column, column}, {row, row}));
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
      return Accumulating(Case(kernel, {x, x, column}, {row}));
    case ROPE: {
      KernelCase result = Case(kernel, {x}, {x});
      result.step.mutable_attributes()->set_sequence(kSequence);
      result.step.mutable_attributes()->set_head_size(64);
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
      result.step.mutable_attributes()->set_sequence(kSequence);
      return result;
    }
    case DROPOUT_MASK:
    case DROPOUT_BY_MASK: {
      const CaseTensor mask{UINT8, {e.rows, e.d}};
      KernelCase result = kernel == DROPOUT_MASK ? Case(kernel, {x}, {x, mask}) : Case(kernel, {x, mask}, {x});
      result.step.mutable_attributes()->set_dropout(0.1);
      if (kernel == DROPOUT_MASK) result.step.mutable_attributes()->set_sequence(kSequence);
      return result;
    }
    case ATTENTION_SOFTMAX:
    case ATTENTION_SOFTMAX_BACKWARD: {
      KernelCase result = kernel == ATTENTION_SOFTMAX ? Case(kernel, {x}, {x}) : Case(kernel, {x, x}, {x});
      result.step.mutable_attributes()->set_heads(e.d / kSequence);
      result.step.mutable_attributes()->set_sequence(kSequence);
      return result;
    }
    case CROSS_ENTROPY: {
      KernelCase result = Case(kernel, {logits, tokens}, {column, {FP64, {8}}});
      result.step.mutable_attributes()->set_vocabulary(kVocabulary);
      result.step.mutable_attributes()->set_loss_weight(1e-3);
      return result;
    }
    case CROSS_ENTROPY_BACKWARD: {
      KernelCase result = Case(kernel, {logits, column, tokens}, {logits});
      result.step.mutable_attributes()->set_vocabulary(kVocabulary);
      result.step.mutable_attributes()->set_loss_weight(1e-3);
      return result;
    }
    case CAST:
      return Case(kernel, {x}, {{BF16, {e.rows, e.d}}});
    case FILL:
      return Case(kernel, {}, {x});
    case EXACT_ACCUMULATE:
      return Accumulating(Case(kernel, {x}, {{EXACT192, {e.rows, e.d}}}));
    case EXACT_ROUND:
      return Case(kernel, {{EXACT192, {e.rows, e.d}}}, {x});
    case SQUARED_NORM:
      return Case(kernel, {x}, {{FP64, {8}}});
    case NORM_TOTAL: {
      KernelCase result = Case(kernel, {{FP64, {e.rows / 8}}}, {{FP64, {2}}});
      result.step.mutable_attributes()->set_clip_norm(1);
      return result;
    }
    case SCALE:
      return Case(kernel, {{FP64, {2}}, x}, {x});
    case ADAMW: {
      KernelCase result = Case(kernel, {x, x, x, x}, {x, x, x});
      StepAttributes& attributes = *result.step.mutable_attributes();
      attributes.set_beta1(0.9);
      attributes.set_beta2(0.95);
      attributes.set_epsilon(1e-8);
      attributes.set_weight_decay(0.1);
      return result;
    }
    case SGD_STEP:
      return Case(kernel, {x, x}, {x});
    default:
      return {};
  }
}

// Tokens and targets without a file behind them.
class CountingData : public DataSource {
 public:
  int64_t windows() const override { return 1 << 20; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample + i) % kVocabulary);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>((sample + i + 1) % kVocabulary);
    return absl::OkStatus();
  }
};

}  // namespace

bool HasCases(Kernel kernel) {
  return kernel == MATMUL || kernel == ATTENTION || kernel == ATTENTION_BACKWARD || IsAttentionProduct(kernel) ||
         Elementwise(kernel, kExtents[0]).step.kernel() == kernel;
}

std::vector<KernelFamily> KernelFamilies() {
  std::vector<KernelFamily> families;
  auto matmuls = [](DType dtype, bool peak_only) {
    KernelFamily family{.kernel = MATMUL, .dtype = dtype, .by_flops = true, .peak_only = peak_only, .sizes = {}};
    if (peak_only) {
      family.sizes = {LinearLayer(dtype, 256, 256, 1024)};
    } else {
      family.sizes = {LinearLayer(dtype, 64, 64, 64), LinearLayer(dtype, 128, 64, 256),
                      LinearLayer(dtype, 128, 128, 512), LinearLayer(dtype, 256, 256, 1024),
                      LinearLayer(dtype, 512, 512, 2048)};
    }
    return family;
  };
  for (int k = KERNEL_UNSPECIFIED + 1; k < Kernel_ARRAYSIZE; ++k) {
    const Kernel kernel = static_cast<Kernel>(k);
    if (!HasCases(kernel)) continue;
    if (kernel == MATMUL) {
      families.push_back(matmuls(FP32, false));
      families.push_back(matmuls(FP64, true));
      families.push_back(matmuls(BF16, true));
      families.push_back(matmuls(FP16, true));
      continue;
    }
    KernelFamily family{.kernel = kernel, .dtype = FP32, .by_flops = false, .peak_only = false, .sizes = {}};
    if (kernel == ATTENTION || kernel == ATTENTION_BACKWARD) {
      family.by_flops = true;
      for (const auto& [rows, d] : {Extent{128, 64}, Extent{256, 128}, Extent{1024, 256}}) {
        family.sizes.push_back({Attention(kernel == ATTENTION_BACKWARD, rows, d)});
      }
    } else if (IsAttentionProduct(kernel)) {
      family.by_flops = true;
      for (const auto& [rows, d] : {Extent{128, 64}, Extent{256, 128}, Extent{1024, 256}}) {
        family.sizes.push_back({AttentionProduct(kernel, rows, d)});
      }
    } else {
      for (const Extent& extent : kExtents) family.sizes.push_back({Elementwise(kernel, extent)});
      if (kernel == LOAD_TOKENS || kernel == LOAD_TARGETS) family.dtype = INT32;
      if (kernel == NORM_TOTAL) family.dtype = FP64;
      // The factor that it multiplies with is its first floating-point input.
      if (kernel == SCALE) family.dtype = FP64;
    }
    families.push_back(std::move(family));
  }
  return families;
}

KernelCase SmallestStep() { return Case(FILL, {}, {{FP32, {1}}}); }

KernelBuffers::KernelBuffers(const KernelCase& kernel) : data_(std::make_unique<CountingData>()) {
  constexpr double kTotal = 16 << 20;
  const int count = static_cast<int>(std::clamp(kTotal / std::max(1.0, kernel.bytes), 2.0, 32.0));
  uint32_t random = 12345;
  for (int i = 0; i < count; ++i) {
    Copy& copy = copies_.emplace_back();
    for (const CaseTensor& tensor : kernel.inputs) copy.inputs.push_back(Allocate(tensor, &random));
    for (const CaseTensor& tensor : kernel.outputs) copy.outputs.push_back(Allocate(tensor, &random));
    // Optimizers work in place: their outputs are their inputs behind the gradient.
    if (kernel.step.kernel() == ADAMW || kernel.step.kernel() == SGD_STEP) {
      for (size_t k = 0; k < copy.outputs.size(); ++k) copy.outputs[k] = copy.inputs[k + 1];
    }
  }
  context_.learning_rate = 1e-3;
  context_.seed = 1;
  context_.data = data_.get();
  if (kernel.step.kernel() == LOAD_TOKENS || kernel.step.kernel() == LOAD_TARGETS) {
    context_.microbatch_sequences = kernel.outputs[0].shape[0] / kSequence;
  } else if (!kernel.outputs.empty() && kernel.outputs[0].shape[0] % kSequence == 0) {
    context_.microbatch_sequences = kernel.outputs[0].shape[0] / kSequence;
  }
}

TensorView KernelBuffers::Allocate(const CaseTensor& tensor, uint32_t* random) {
  const int64_t elements = ElementCount(tensor.shape).value_or(0);
  const int64_t bytes = RoundUp(std::max<int64_t>(1, elements * DTypeBytes(tensor.dtype)), 64);
  void* memory = std::aligned_alloc(64, bytes);
  memory_.emplace_back(memory);
  std::memset(memory, 0, bytes);
  for (int64_t i = 0; i < elements; ++i) {
    *random = *random * 1664525 + 1013904223;
    // In [0.1, 1): no denormals, and fit for whatever must be positive.
    const double value = 0.1 + 0.9 * (*random >> 8) / (1 << 24);
    if (tensor.dtype == FP32) static_cast<float*>(memory)[i] = static_cast<float>(value);
    if (tensor.dtype == FP64) static_cast<double*>(memory)[i] = value;
    if (tensor.dtype == BF16) static_cast<uint16_t*>(memory)[i] = static_cast<uint16_t>(0x3e00 + (*random >> 25));
    if (tensor.dtype == FP16) static_cast<uint16_t*>(memory)[i] = static_cast<uint16_t>(0x3800 + (*random >> 22));
    if (tensor.dtype == UINT8) static_cast<uint8_t*>(memory)[i] = *random >> 31;
    if (tensor.dtype == INT32) static_cast<int32_t*>(memory)[i] = static_cast<int32_t>((*random >> 8) % kVocabulary);
  }
  return {memory, tensor.dtype, tensor.shape};
}

}  // namespace weft
