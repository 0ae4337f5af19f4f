// Tensors and step runs for tests of CPU kernels.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_TEST_UTIL_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cpu/cpu.h"
#include "executor/interface/backend.h"
#include "executor/interface/step_tensors.h"
#include "gtest/gtest.h"

namespace weft::exec::cpu {

// A tensor that owns its memory. Elements are read and written as doubles.
class Tensor {
 public:
  Tensor(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    size_ = 1;
    for (int64_t extent : shape_) size_ *= extent;
    // The memory is longer than needed and ends with a pattern that a kernel must not overwrite.
    bytes_.assign(size_ * ElementSize() + kGuard, kPattern);
    std::fill(bytes_.begin(), bytes_.end() - kGuard, 0);
  }

  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }
  TensorView view() { return {bytes_.data(), dtype_, shape_}; }
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes_.data());
  }

  double Get(int64_t i) const {
    const unsigned char* p = bytes_.data() + i * ElementSize();
    if (dtype_ == FP64) return As<double>(p);
    if (dtype_ == FP32) return As<float>(p);
    if (dtype_ == INT32) return As<int32_t>(p);
    if (dtype_ == UINT8) return *p;
    if (dtype_ == FP16) return FromFp16(As<uint16_t>(p));
    const uint32_t bits = uint32_t{As<uint16_t>(p)} << 16;
    return As<float>(reinterpret_cast<const unsigned char*>(&bits));
  }

  // Stores `value`, rounded to nearest even.
  void Set(int64_t i, double value) {
    unsigned char* p = bytes_.data() + i * ElementSize();
    if (dtype_ == FP64) Put(p, value);
    if (dtype_ == FP32) Put(p, static_cast<float>(value));
    if (dtype_ == INT32) Put(p, static_cast<int32_t>(value));
    if (dtype_ == BF16) Put(p, RoundToBf16(value));
    if (dtype_ == FP16) Put(p, RoundToFp16(value));
  }

  std::vector<double> Values() const {
    std::vector<double> values(size_);
    for (int64_t i = 0; i < size_; ++i) values[i] = Get(i);
    return values;
  }

  bool GuardIntact() const {
    return std::all_of(bytes_.end() - kGuard, bytes_.end(), [](unsigned char byte) { return byte == kPattern; });
  }

  static double FromFp16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double value = exponent == 0   ? std::ldexp(fraction, -24)
                         : exponent < 31 ? std::ldexp(1024 + fraction, exponent - 25)
                         : fraction == 0 ? INFINITY
                                         : NAN;
    return bits >> 15 ? -value : value;
  }

  // Rounds by scaling to units of the last place.
  static uint16_t RoundToFp16(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | 0x7e00;
    const double magnitude = std::abs(value);
    if (magnitude >= 65520) return sign | 0x7c00;
    int exponent;
    std::frexp(magnitude, &exponent);
    // magnitude is in [2^(exponent - 1), 2^exponent). Numbers below 2^-14 are subnormal.
    exponent = magnitude == 0 ? -13 : std::max(exponent, -13);
    const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));
    // 1024 units are the smallest normal number of the exponent, so a carry moves into the exponent by itself.
    return static_cast<uint16_t>(sign | (((exponent + 13) << 10) + units));
  }

  // Rounds by scaling to 8 significant bits. The kernels use another method: they add to the bit pattern.
  static uint16_t RoundToBf16(double value) {
    float rounded = static_cast<float>(value);
    if (std::isfinite(value) && value != 0) {
      int exponent;
      std::frexp(value, &exponent);
      const double unit = std::ldexp(1.0, std::max(exponent - 8, -133));
      rounded = static_cast<float>(std::nearbyint(value / unit) * unit);
    }
    uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof(bits));
    return static_cast<uint16_t>(bits >> 16);
  }

 private:
  static constexpr int kGuard = 64;
  static constexpr unsigned char kPattern = 0xA5;

  int64_t ElementSize() const {
    return dtype_ == FP64                     ? 8
           : dtype_ == BF16 || dtype_ == FP16 ? 2
           : dtype_ == EXACT192               ? 24
           : dtype_ == UINT8                  ? 1
                                              : 4;
  }
  template <typename T>
  static T As(const unsigned char* p) {
    T value;
    std::memcpy(&value, p, sizeof(value));
    return value;
  }
  template <typename T>
  static void Put(unsigned char* p, T value) {
    std::memcpy(p, &value, sizeof(value));
  }

  DType dtype_;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
  std::vector<unsigned char> bytes_;
};

inline void FillNormal(Tensor& tensor, std::mt19937_64& random, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, normal(random));
}

inline Tensor Normal(DType dtype, std::vector<int64_t> shape, std::mt19937_64& random, double scale = 1) {
  Tensor tensor(dtype, std::move(shape));
  FillNormal(tensor, random, scale);
  return tensor;
}

// Checks and runs one step, which writes to `outputs`.
inline absl::Status RunStep(Backend& backend, const Step& step, std::vector<Tensor>& inputs,
                            std::vector<Tensor>& outputs, const StepContext& context = {}) {
  std::vector<TensorView> in, out;
  for (Tensor& tensor : inputs) in.push_back(tensor.view());
  for (Tensor& tensor : outputs) out.push_back(tensor.view());
  const absl::Status fits = CheckStep(step, in, out);
  return fits.ok() ? backend.Run(step, in, out, context) : fits;
}

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_TEST_UTIL_H_
