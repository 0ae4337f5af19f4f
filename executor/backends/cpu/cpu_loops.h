// The inner loops of the CPU backend: plain arrays in, plain arrays out. They are compiled once per instruction set and
// chosen at run time. T is the type that a kernel computes in, float or double; storage types are converted on the way
// in and out.
//
// Reproducibility: every loop fixes its order of operations. A product uses one chain of fused multiply-adds over k per
// element, a reduction adds into a fixed number of partial sums, and everything else is elementwise. Results therefore
// depend neither on tiling, nor on threads, nor on vector width. AVX2 and AVX-512 give the same bits; the baseline has
// no fused multiply-add, so its products differ in the last bits.
//
// Files compiled per instruction set include only this header and C headers: an inline function of the standard library
// compiled for AVX-512 could otherwise be the copy that the linker keeps for everyone.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_H_

#include <stdint.h>

namespace weft::exec::cpu {

// How floating-point elements are stored. The values are those of the proto enum DType.
enum class Storage : int32_t { kFp64 = 1, kFp32 = 2, kBf16 = 3, kFp16 = 4 };

// Element (i, j) is data[i * stride + j], or data[j * stride + i] if transposed.
struct Matrix {
  const void* data = nullptr;
  Storage storage = Storage::kFp32;
  int64_t stride = 0;
  bool transposed = false;
  // If true, elements stored in fp32 are rounded to TF32 as they are read: ten bits of fraction, to nearest even.
  bool tf32 = false;
};

// Arguments of Loops::multiply. It computes rows [first_row, first_row + rows) of C = old (if accumulate) + (op(A) *
// op(B) + bias). Loops::pack makes the panels of B.
template <typename T>
struct Product {
  Matrix a;
  int64_t first_row = 0;
  // At most kRowBlock.
  int64_t rows = 0;
  int64_t k = 0;
  // Panels for columns [0, columns) of C; panel p starts at panels + p * panel_stride.
  const T* panels = nullptr;
  int64_t panel_stride = 0;
  int64_t columns = 0;
  // One element per column, or null.
  const T* bias = nullptr;
  bool accumulate = false;
  // Element (first_row, 0) of C.
  void* c = nullptr;
  Storage c_storage = Storage::kFp32;
  int64_t c_stride = 0;
};

struct AdamParameters {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  // 1 - beta1^t and sqrt(1 - beta2^t).
  double correction1, sqrt_correction2;
};

// Largest number of rows of A per call of Loops::multiply, and the length of a block of k: the call handles one block
// at a time.
inline constexpr int64_t kRowBlock = 96;
inline constexpr int64_t kDepthBlock = 256;
// Elements from one row of a packed block of A to the next: not a power of two, so that rows fall into different cache
// sets.
inline constexpr int64_t kDepthStride = kDepthBlock + 16;
// The widest panel of any instruction set.
inline constexpr int64_t kMaxPanelWidth = 32;

// Elements of scratch memory that Loops::multiply needs for products with this k and this number of columns.
inline int64_t MultiplyScratch(int64_t k, int64_t columns) {
  const int64_t partial = (columns + kMaxPanelWidth - 1) / kMaxPanelWidth * kMaxPanelWidth * kRowBlock;
  return kRowBlock * kDepthStride + (k > kDepthBlock ? partial : 0);
}

// Elements of all panels of a matrix with k rows and this number of columns.
inline int64_t PanelElements(int64_t k, int64_t columns) {
  return (columns + kMaxPanelWidth - 1) / kMaxPanelWidth * kMaxPanelWidth * k;
}

enum class PointwiseOp {
#define POINTWISE(op, inputs, outputs, kernel, when) op,
#include "kernels/pointwise.def"
#undef POINTWISE
  kCount
};
inline constexpr int kPointwiseOps = static_cast<int>(PointwiseOp::kCount);

template <typename T>
struct Loops {
  // Columns of one panel of B; a panel holds panel_width * k elements.
  int64_t panel_width;

  // Convert between T and a storage type: dst[i] = src[i]. `store` rounds once, to nearest even.
  void (*load)(const void* src, Storage storage, int64_t n, T* dst);
  void (*store)(const T* src, Storage storage, int64_t n, void* dst);

  // Packs columns [first, first + columns) of op(B), which has k rows, into panels of panel_width columns. Missing
  // columns of the last panel are zero.
  void (*pack)(const Matrix& b, int64_t k, int64_t first, int64_t columns, T* panels);
  void (*multiply)(const Product<T>& product, T* scratch);

  // y = a + b.
  void (*add)(const T* a, const T* b, int64_t n, T* y);
  // y += a.
  void (*accumulate)(const T* a, int64_t n, T* y);
  // y = x * factor.
  void (*scale)(const T* x, T factor, int64_t n, T* y);
  // sums[i] += dy[i] * (x[i] - mean) * rstd.
  void (*accumulate_normalized)(const T* dy, const T* x, T mean, T rstd, int64_t n, T* sums);

  // The loops of kernels/pointwise.def, by PointwiseOp. All arrays have n elements.
  void (*pointwise[kPointwiseOps])(const T* const* inputs, int64_t n, T* const* outputs);

  void (*layer_norm)(const T* x, const T* gamma, const T* beta, int64_t n, T epsilon, T* y, T* mean, T* rstd);
  void (*layer_norm_backward)(const T* dy, const T* x, const T* gamma, T mean, T rstd, int64_t n, T* dx);

  // rstd = 1 / sqrt(mean(x * x) + epsilon), y = x * rstd * gamma.
  void (*rms_norm)(const T* x, const T* gamma, int64_t n, T epsilon, T* y, T* rstd);
  void (*rms_norm_backward)(const T* dy, const T* x, const T* gamma, T rstd, int64_t n, T* dx);

  // Rotates the pairs (x[i], x[i + half]) of one head by the angles with these cosines and sines; sign = -1 rotates
  // back.
  void (*rotate)(const T* x, const T* cosines, const T* sines, T sign, int64_t half, T* y);

  // log(sum(exp(x))).
  T (*log_sum_exp)(const T* x, int64_t n);
  // y = factor * exp(scale * x - shift).
  void (*exp)(const T* x, T scale, T shift, T factor, int64_t n, T* y);
  // Softmax of scale * x in place; returns the log-sum-exp of scale * x.
  T (*softmax)(T* x, T scale, int64_t n);
  // dp[i] = p[i] * (dp[i] - shift) * scale: gradient of a softmax row with respect to its unscaled scores.
  void (*softmax_backward)(const T* p, T shift, T scale, int64_t n, T* dp);
  T (*dot)(const T* a, const T* b, int64_t n);
  // y = x * factor where words[i] >= threshold, else 0.
  void (*mask)(const T* x, const uint32_t* words, uint32_t threshold, T factor, int64_t n, T* y);

  // Sum of x * x, in double.
  double (*squared_norm)(const T* x, int64_t n);

  void (*adamw)(const AdamParameters& parameters, const T* gradient, int64_t n, T* w, T* m, T* v);
  // `momentum` may be null.
  void (*sgd)(T learning_rate, T momentum_factor, T weight_decay, const T* gradient, int64_t n, T* w, T* momentum);
};

struct LoopTable {
  const char* name;
  Loops<float> fp32;
  Loops<double> fp64;
  // Writes the Philox words of elements [4 * first, 4 * (first + blocks)). The counter of block i is (first + i, c1,
  // c2, c3).
  void (*philox)(uint32_t key_low, uint32_t key_high, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3,
                 int64_t blocks, uint32_t* words);
  // Stochastic rounding to kBf16 or kFp16, with n random 16-bit numbers (docs/kernels.md).
  void (*store_at_random)(const float* src, Storage storage, const void* random, int64_t n, void* dst);
};

// Returns the loops for the highest instruction set that this processor has. The choice is made once. The environment
// variable WEFT_CPU_LOOPS (avx512, avx2, baseline) can select a lower instruction set.
const LoopTable& BestLoops();
// Returns the loops of this name; null if there are none or this processor cannot run them.
const LoopTable* FindLoops(const char* name);

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_H_
