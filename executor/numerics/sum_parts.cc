#include "executor/numerics/sum_parts.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "executor/numerics/exact192.h"
#include "executor/numerics/float_bits.h"

namespace weft::exec {
namespace {

template <typename T>
void SumAs(int64_t elements, absl::Span<const void* const> parts, void* destination) {
  T* out = static_cast<T*>(destination);
  if (parts.size() == 2) {
    const T* a = static_cast<const T*>(parts[0]);
    const T* b = static_cast<const T*>(parts[1]);
    for (int64_t i = 0; i < elements; ++i) out[i] = a[i] + b[i];
    return;
  }
  for (int64_t i = 0; i < elements; ++i) {
    T sum = static_cast<const T*>(parts[0])[i];
    for (size_t p = 1; p < parts.size(); ++p) sum += static_cast<const T*>(parts[p])[i];
    out[i] = sum;
  }
}

// For 16-bit types; the sum is computed in float.
template <float (*Load)(uint16_t), uint16_t (*Store)(float)>
void SumHalves(int64_t elements, absl::Span<const void* const> parts, void* destination) {
  uint16_t* out = static_cast<uint16_t*>(destination);
  for (int64_t i = 0; i < elements; ++i) {
    float sum = Load(static_cast<const uint16_t*>(parts[0])[i]);
    for (size_t p = 1; p < parts.size(); ++p) sum += Load(static_cast<const uint16_t*>(parts[p])[i]);
    out[i] = Store(sum);
  }
}

void SumExact(int64_t elements, absl::Span<const void* const> parts, void* destination) {
  const auto sum = absl::MakeSpan(static_cast<Exact192*>(destination), elements);
  // The sum is exact, so its order is free. If the destination is one of the parts, the sum starts from it.
  const bool in_place = std::find(parts.begin(), parts.end(), destination) != parts.end();
  bool started = in_place;
  for (const void* part : parts) {
    if (part == destination) continue;
    if (started) {
      ExactMerge(absl::MakeConstSpan(static_cast<const Exact192*>(part), elements), sum);
    } else {
      std::memcpy(destination, part, elements * sizeof(Exact192));
      started = true;
    }
  }
}

bool IsFloat(DType dtype) { return dtype == FP64 || dtype == FP32 || dtype == BF16 || dtype == FP16; }

// Converts a storage type to and from the compute type T.
template <DType dtype>
struct Storage;
template <>
struct Storage<FP64> {
  using Type = double;
  template <typename T>
  static T Load(double x) {
    return static_cast<T>(x);
  }
  template <typename T>
  static double Store(T x) {
    return static_cast<double>(x);
  }
};
template <>
struct Storage<FP32> {
  using Type = float;
  template <typename T>
  static T Load(float x) {
    return static_cast<T>(x);
  }
  template <typename T>
  static float Store(T x) {
    return static_cast<float>(x);
  }
};
template <>
struct Storage<BF16> {
  using Type = uint16_t;
  template <typename T>
  static T Load(uint16_t x) {
    return static_cast<T>(FloatFromBf16(x));
  }
  static uint16_t Store(float x) { return Bf16FromFloat(x); }
  static uint16_t Store(double x) { return Bf16FromFloat(OddFromDouble(x)); }
};
template <>
struct Storage<FP16> {
  using Type = uint16_t;
  template <typename T>
  static T Load(uint16_t x) {
    return static_cast<T>(FloatFromFp16(x));
  }
  static uint16_t Store(float x) { return Fp16FromFloat(x); }
  static uint16_t Store(double x) { return Fp16FromFloat(OddFromDouble(x)); }
};

template <typename T, DType from, DType to>
void AddLoop(const void* values, int64_t elements, bool accumulate, void* destination) {
  const auto* x = static_cast<const typename Storage<from>::Type*>(values);
  auto* y = static_cast<typename Storage<to>::Type*>(destination);
  if (accumulate) {
    for (int64_t i = 0; i < elements; ++i) {
      y[i] = Storage<to>::Store(Storage<to>::template Load<T>(y[i]) + Storage<from>::template Load<T>(x[i]));
    }
  } else {
    for (int64_t i = 0; i < elements; ++i) y[i] = Storage<to>::Store(Storage<from>::template Load<T>(x[i]));
  }
}

template <DType from>
void AddFloats(const void* values, int64_t elements, bool accumulate, DType to, void* destination) {
  if (to == FP64) {
    AddLoop<double, from, FP64>(values, elements, accumulate, destination);
  } else if (to == FP32) {
    using T = std::conditional_t<from == FP64, double, float>;
    AddLoop<T, from, FP32>(values, elements, accumulate, destination);
  } else {
    using T = std::conditional_t<from == FP64, double, float>;
    if (to == BF16) {
      AddLoop<T, from, BF16>(values, elements, accumulate, destination);
    } else {
      AddLoop<T, from, FP16>(values, elements, accumulate, destination);
    }
  }
}

void AddExact(DType from, const void* values, int64_t elements, bool accumulate, Exact192* destination) {
  const absl::Span<Exact192> sums = absl::MakeSpan(destination, elements);
  if (from == EXACT192) {
    if (accumulate) {
      ExactMerge(absl::MakeConstSpan(static_cast<const Exact192*>(values), elements), sums);
    } else {
      std::memmove(destination, values, elements * sizeof(Exact192));
    }
    return;
  }
  if (!accumulate) std::fill(sums.begin(), sums.end(), Exact192{});
  if (from == FP64) {
    ExactAccumulate(absl::MakeConstSpan(static_cast<const double*>(values), elements), sums);
  } else if (from == FP32) {
    ExactAccumulate(absl::MakeConstSpan(static_cast<const float*>(values), elements), sums);
  } else if (from == FP16) {
    const uint16_t* halves = static_cast<const uint16_t*>(values);
    for (int64_t i = 0; i < elements; ++i) {
      const float value = FloatFromFp16(halves[i]);
      ExactAccumulate(absl::MakeConstSpan(&value, 1), sums.subspan(i, 1));
    }
  } else {
    ExactAccumulateBf16(absl::MakeConstSpan(static_cast<const uint16_t*>(values), elements), sums);
  }
}

}  // namespace

bool HasSum(DType dtype) { return IsFloat(dtype) || dtype == EXACT192; }

bool SumParts(DType dtype, int64_t elements, absl::Span<const void* const> parts, void* destination) {
  if (elements > 0 && parts.empty()) return false;
  switch (dtype) {
    case FP64:
      SumAs<double>(elements, parts, destination);
      return true;
    case FP32:
      SumAs<float>(elements, parts, destination);
      return true;
    case BF16:
      SumHalves<FloatFromBf16, Bf16FromFloat>(elements, parts, destination);
      return true;
    case FP16:
      SumHalves<FloatFromFp16, Fp16FromFloat>(elements, parts, destination);
      return true;
    case EXACT192:
      SumExact(elements, parts, destination);
      return true;
    default:
      return false;
  }
}

bool CanAddTo(DType from, DType to) { return to == EXACT192 ? HasSum(from) : IsFloat(from) && IsFloat(to); }

void AddTo(DType from, const void* values, int64_t elements, bool accumulate, DType to, void* destination) {
  if (to == EXACT192) {
    AddExact(from, values, elements, accumulate, static_cast<Exact192*>(destination));
  } else if (from == FP64) {
    AddFloats<FP64>(values, elements, accumulate, to, destination);
  } else if (from == FP32) {
    AddFloats<FP32>(values, elements, accumulate, to, destination);
  } else if (from == FP16) {
    AddFloats<FP16>(values, elements, accumulate, to, destination);
  } else {
    AddFloats<BF16>(values, elements, accumulate, to, destination);
  }
}

}  // namespace weft::exec
