// Elementwise loops and reductions, for the files that are compiled once per instruction set (cpu_loops.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_MATH_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_MATH_H_

#include <math.h>

#include "executor/backends/cpu/cpu_loops.h"
#include "executor/backends/cpu/cpu_loops_simd.h"

namespace weft::exec::cpu {
namespace {

// Elements per pass of a loop that needs a temporary array.
constexpr int64_t kBlock = 512;

// exp in float, with an error of at most 2 units in the last place. It is branch-free so that loops vectorize. exp(x) =
// 2^n * exp(r) with |r| <= ln(2) / 2; exp(r) is its Taylor series to r^7 (remainder below 7.1e-9 of the result).
inline float Exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits.
  const float shifter = 12582912.0f;
  const float shifted = x * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n in two factors, because n goes from -150 (subnormal results) to 128 (infinity).
  const uint32_t exponent = BitsOfFloat(shifted) - BitsOfFloat(shifter) + 256;
  const uint32_t half = exponent >> 1;
  return p * FloatFromBits((half + 127 - 128) << 23) * FloatFromBits((exponent - half + 127 - 128) << 23);
}

inline double Exp(double x) { return ::exp(x); }
inline float Log(float x) { return ::logf(x); }
inline double Log(double x) { return ::log(x); }
inline float Sqrt(float x) { return __builtin_sqrtf(x); }
inline double Sqrt(double x) { return __builtin_sqrt(x); }

// Returns the sum of f over [0, n). The type of f's second argument selects what f returns: for a vector, the kWidth
// elements from i on; for a T, element i. There are 2 * kWidth partial sums. Partial sum l adds elements l, l + 2 *
// kWidth, …; the partial sums are then added as a tree.
template <typename T, typename F>
inline __attribute__((always_inline)) T Sum(int64_t n, F f) {
  using V = typename Lanes<T>::Type;
  constexpr int kWidth = Lanes<T>::kWidth;
  V sum[2] = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    sum[0] += f(i, V{});
    sum[1] += f(i + kWidth, V{});
  }
  T lane[2 * kWidth];
  memcpy(lane, sum, sizeof(lane));
  for (int l = 0; i < n; ++i, ++l) lane[l] += f(i, T{});
  for (int width = kWidth; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

template <typename T>
inline typename Lanes<T>::Type At(const T* p, int64_t i, typename Lanes<T>::Type) {
  return LoadVector<typename Lanes<T>::Type>(p + i);
}

template <typename T>
inline T At(const T* p, int64_t i, T) {
  return p[i];
}

template <typename T>
void Load(const void* src, Storage storage, int64_t n, T* dst) {
  switch (storage) {
    case Storage::kFp64:
      for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<T>(static_cast<const double*>(src)[i]);
      break;
    case Storage::kFp32:
      for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<const float*>(src)[i];
      break;
    case Storage::kBf16:
      for (int64_t i = 0; i < n; ++i) dst[i] = FromBf16(static_cast<const uint16_t*>(src)[i]);
      break;
    case Storage::kFp16:
      for (int64_t i = 0; i < n; ++i) dst[i] = FromFp16(static_cast<const uint16_t*>(src)[i]);
      break;
  }
}

template <typename T>
void Store(const T* src, Storage storage, int64_t n, void* dst) {
  switch (storage) {
    case Storage::kFp64:
      for (int64_t i = 0; i < n; ++i) static_cast<double*>(dst)[i] = src[i];
      break;
    case Storage::kFp32:
      for (int64_t i = 0; i < n; ++i) static_cast<float*>(dst)[i] = static_cast<float>(src[i]);
      break;
    case Storage::kBf16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = ToBf16(src[i]);
      break;
    case Storage::kFp16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = ToFp16(src[i]);
      break;
  }
}

void StoreAtRandom(const float* src, Storage storage, const void* random, int64_t n, void* dst) {
  uint16_t* to = static_cast<uint16_t*>(dst);
  const char* bytes = static_cast<const char*>(random);
  uint16_t bits;
  if (storage == Storage::kBf16) {
    for (int64_t i = 0; i < n; ++i) {
      memcpy(&bits, bytes + 2 * i, sizeof(bits));
      to[i] = ToBf16AtRandom(src[i], bits);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    memcpy(&bits, bytes + 2 * i, sizeof(bits));
    to[i] = ToFp16AtRandom(src[i], bits);
  }
}

template <typename T>
void Add(const T* a, const T* b, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

template <typename T>
void Accumulate(const T* a, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += a[i];
}

template <typename T>
void Scale(const T* x, T factor, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

template <typename T>
void AccumulateNormalized(const T* dy, const T* x, T mean, T rstd, int64_t n, T* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += dy[i] * ((x[i] - mean) * rstd);
}

template <typename T>
void LayerNorm(const T* x, const T* gamma, const T* beta, int64_t n, T epsilon, T* y, T* mean, T* rstd) {
  const T average = Sum<T>(n, [&](int64_t i, auto lane) { return At(x, i, lane); }) / static_cast<T>(n);
  const T squares = Sum<T>(n, [&](int64_t i, auto lane) {
    const auto difference = At(x, i, lane) - average;
    return difference * difference;
  });
  const T inverse = T(1) / Sqrt(squares / static_cast<T>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - average) * inverse * gamma[i] + beta[i];
  *mean = average;
  *rstd = inverse;
}

// With g = dy * gamma and z = (x - mean) * rstd: dx = rstd * (g - mean(g) - z * mean(g * z)).
template <typename T>
void LayerNormBackward(const T* dy, const T* x, const T* gamma, T mean, T rstd, int64_t n, T* dx) {
  const T inverse_n = T(1) / static_cast<T>(n);
  const T mean_g = inverse_n * Sum<T>(n, [&](int64_t i, auto lane) { return At(dy, i, lane) * At(gamma, i, lane); });
  const T mean_gz = inverse_n * Sum<T>(n, [&](int64_t i, auto lane) {
                      return At(dy, i, lane) * At(gamma, i, lane) * ((At(x, i, lane) - mean) * rstd);
                    });
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = rstd * ((dy[i] * gamma[i] - mean_g) - (x[i] - mean) * rstd * mean_gz);
  }
}

template <typename T>
inline T Maximum(const T* x, int64_t n) {
  using V = typename Lanes<T>::Type;
  constexpr int kWidth = Lanes<T>::kWidth;
  T lane[kWidth];
  for (int l = 0; l < kWidth; ++l) lane[l] = -__builtin_inf();
  int64_t i = 0;
  if (n >= kWidth) {
    V maximum = LoadVector<V>(x);
    for (i = kWidth; i + kWidth <= n; i += kWidth) {
      const V other = LoadVector<V>(x + i);
      maximum = other > maximum ? other : maximum;
    }
    StoreVector(maximum, lane);
  }
  for (int l = 0; i < n; ++i, ++l) lane[l] = x[i] > lane[l] ? x[i] : lane[l];
  T result = lane[0];
  for (int l = 1; l < kWidth; ++l) result = lane[l] > result ? lane[l] : result;
  return result;
}

template <typename T>
void ExpLoop(const T* x, T scale, T shift, T factor, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = factor * Exp(scale * x[i] - shift);
}

template <typename T>
T LogSumExp(const T* x, int64_t n) {
  const T maximum = Maximum(x, n);
  T total = 0;
  T terms[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = n - first < kBlock ? n - first : kBlock;
    ExpLoop(x + first, T(1), maximum, T(1), count, terms);
    total += Sum<T>(count, [&](int64_t i, auto lane) { return At(terms, i, lane); });
  }
  return maximum + Log(total);
}

template <typename T>
T Softmax(T* x, T scale, int64_t n) {
  // A negative scale reverses the order of x, so x and scale both change sign: scale * max(x) is then the largest
  // score.
  if (scale < 0) {
    for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
    scale = -scale;
  }
  const T maximum = scale * Maximum(x, n);
  ExpLoop(x, scale, maximum, T(1), n, x);
  const T total = Sum<T>(n, [&](int64_t i, auto lane) { return At(x, i, lane); });
  const T inverse = T(1) / total;
  for (int64_t i = 0; i < n; ++i) x[i] *= inverse;
  return maximum + Log(total);
}

template <typename T>
void SoftmaxBackward(const T* p, T shift, T scale, int64_t n, T* dp) {
  for (int64_t i = 0; i < n; ++i) dp[i] = p[i] * (dp[i] - shift) * scale;
}

template <typename T>
T Dot(const T* a, const T* b, int64_t n) {
  return Sum<T>(n, [&](int64_t i, auto lane) { return At(a, i, lane) * At(b, i, lane); });
}

template <typename T>
void Mask(const T* x, const uint32_t* words, uint32_t threshold, T factor, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = words[i] < threshold ? T(0) : x[i] * factor;
}

template <typename T>
double SquaredNorm(const T* x, int64_t n) {
  double total = 0;
  double terms[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = n - first < kBlock ? n - first : kBlock;
    for (int64_t i = 0; i < count; ++i) terms[i] = x[first + i];
    total += Dot(terms, terms, count);
  }
  return total;
}

template <typename T>
void AdamW(const AdamParameters& p, const T* gradient, int64_t n, T* w, T* m, T* v) {
  const T beta1 = static_cast<T>(p.beta1), rest1 = static_cast<T>(1 - p.beta1);
  const T beta2 = static_cast<T>(p.beta2), rest2 = static_cast<T>(1 - p.beta2);
  const T keep = static_cast<T>(1 - p.learning_rate * p.weight_decay);
  const T rate = static_cast<T>(p.learning_rate / p.correction1);
  const T inverse_correction2 = static_cast<T>(1 / p.sqrt_correction2);
  const T epsilon = static_cast<T>(p.epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const T g = gradient[i];
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * (g * g);
    w[i] = keep * w[i] - rate * (m[i] / (Sqrt(v[i]) * inverse_correction2 + epsilon));
  }
}

template <typename T>
void Sgd(T learning_rate, T momentum_factor, T weight_decay, const T* gradient, int64_t n, T* w, T* momentum) {
  for (int64_t i = 0; i < n; ++i) {
    T g = gradient[i] + weight_decay * w[i];
    if (momentum != nullptr) {
      g = momentum_factor * momentum[i] + g;
      momentum[i] = g;
    }
    w[i] = w[i] - learning_rate * g;
  }
}

// 64-bit lanes that hold one 32-bit word each. Between rounds of the random generator, the upper halves may hold
// anything.
typedef uint64_t Words __attribute__((vector_size(kVectorBytes)));

// Multiplies the lower halves.
inline __attribute__((always_inline)) Words MultiplyLow(Words a, Words b) {
#if defined(__AVX512F__)
  return (Words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (Words)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

void Philox(uint32_t key_low, uint32_t key_high, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3, int64_t blocks,
            uint32_t* words) {
  // Handles two vectors at a time, so that one multiplies while the other waits for its product.
  constexpr int kWidth = kVectorBytes / 8;
  constexpr int kVectors = 2;
  const Words zero = {};
  Words ramp;
  for (int l = 0; l < kWidth; ++l) ramp[l] = l;
  for (int64_t block = 0; block < blocks; block += kVectors * kWidth) {
    Words x0[kVectors], x1[kVectors], x2[kVectors], x3[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      x0[v] = ramp + (uint64_t{first} + static_cast<uint64_t>(block) + v * kWidth);
      x1[v] = zero + c1;
      x2[v] = zero + c2;
      x3[v] = zero + c3;
    }
    uint32_t k0 = key_low, k1 = key_high;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      for (int v = 0; v < kVectors; ++v) {
        const Words product0 = MultiplyLow(x0[v], zero + 0xD2511F53);
        const Words product1 = MultiplyLow(x2[v], zero + 0xCD9E8D57);
        x0[v] = (product1 >> 32) ^ x1[v] ^ (zero + k0);
        x2[v] = (product0 >> 32) ^ x3[v] ^ (zero + k1);
        x1[v] = product1;
        x3[v] = product0;
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = block + v * kWidth;
      const int64_t count = blocks - at < kWidth ? blocks - at : kWidth;
      if (count <= 0) break;
      uint64_t pairs[2 * kWidth];
      for (int l = 0; l < kWidth; ++l) {
        pairs[2 * l] = (x0[v][l] & 0xffffffff) | x1[v][l] << 32;
        pairs[2 * l + 1] = (x2[v][l] & 0xffffffff) | x3[v][l] << 32;
      }
      if (count == kWidth) {
        memcpy(words + 4 * at, pairs, sizeof(pairs));
      } else {
        memcpy(words + 4 * at, pairs, 16 * static_cast<size_t>(count));
      }
    }
  }
}

}  // namespace
}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_MATH_H_
