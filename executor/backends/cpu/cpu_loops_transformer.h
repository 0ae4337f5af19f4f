// Loops of Llama-like transformers, for the files that are compiled once per instruction set (cpu_loops.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_TRANSFORMER_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_TRANSFORMER_H_

#include "executor/backends/cpu/cpu_loops_math.h"

namespace weft::exec::cpu {
namespace {

template <typename T>
void RmsNorm(const T* x, const T* gamma, int64_t n, T epsilon, T* y, T* rstd) {
  const T squares = Sum<T>(n, [&](int64_t i, auto lane) { return At(x, i, lane) * At(x, i, lane); });
  const T inverse = T(1) / Sqrt(squares / static_cast<T>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * inverse * gamma[i];
  *rstd = inverse;
}

// With g = dy * gamma and z = x * rstd: dx = rstd * (g - z * mean(g * z)).
template <typename T>
void RmsNormBackward(const T* dy, const T* x, const T* gamma, T rstd, int64_t n, T* dx) {
  const T mean_gz = T(1) / static_cast<T>(n) * Sum<T>(n, [&](int64_t i, auto lane) {
                      return At(dy, i, lane) * At(gamma, i, lane) * (At(x, i, lane) * rstd);
                    });
  for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] * gamma[i] - x[i] * rstd * mean_gz);
}

template <typename T>
void Rotate(const T* x, const T* cosines, const T* sines, T sign, int64_t half, T* y) {
  for (int64_t i = 0; i < half; ++i) {
    const T s = sign * sines[i];
    const T low = x[i], high = x[i + half];
    y[i] = low * cosines[i] - high * s;
    y[i + half] = high * cosines[i] + low * s;
  }
}

}  // namespace
}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_TRANSFORMER_H_
