#include "executor/backends/cuda/kernels/dropout.h"
#include "executor/backends/cuda/kernels/dropout_words.h"
#include "executor/backends/cuda/kernels/eights.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;

// Position of an element of the step: its sample, its index in the whole sample, and the number of elements from it on
// that are consecutive in both the array and the sample. Such a run ends with its row. If columns are scores of several
// heads, a run ends with the scores of one head.
struct Place {
  uint64_t sample;
  int64_t logical;
  int64_t run;
};

WEFT_DEVICE Place PlaceOf(const Dropout& a, int64_t element) {
  const int64_t of_row = Divide(element, a.columns), column = element - of_row * a.columns;
  const int64_t row_of_all = a.row_shift + of_row;
  const int64_t sequence_number = Divide(row_of_all, a.sequence);
  const int64_t row = row_of_all - sequence_number * a.sequence;
  const uint64_t sample = SampleOf(a.samples, sequence_number);
  if (a.heads == 0) return {sample, row * a.whole + a.column_shift + column, a.columns - column};
  const int64_t head = Divide(column, a.sequence), key = column - head * a.sequence;
  return {sample, ((a.column_shift + head) * a.sequence + row) * a.sequence + key, a.sequence - key};
}

// Returns a mask in which bit i is 1 if the i-th of `count` elements is kept. `count` is at most eight.
WEFT_DEVICE uint32_t KeptBits(const Dropout& a, int64_t first, int64_t count) {
  Place place = PlaceOf(a, first);
  uint32_t bits = 0;
  if (count == kBlock && place.run >= kBlock && (place.logical & 3) == 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PhiloxWords words =
          Philox(a.key.key_low, a.key.key_high, static_cast<uint32_t>(place.logical >> 2) + half, a.key.site,
                 static_cast<uint32_t>(place.sample), static_cast<uint32_t>(place.sample >> 32));
#pragma unroll
      for (int i = 0; i < 4; ++i) bits |= (words.word[i] >= a.key.threshold ? 1u : 0u) << (4 * half + i);
    }
    return bits;
  }
  DropoutWords words(a.key);
  for (int i = 0; i < count; ++i) {
    if (place.run == 0) place = PlaceOf(a, first + i);
    bits |= (words.IsKept(place.sample, place.logical) ? 1u : 0u) << i;
    ++place.logical;
    --place.run;
  }
  return bits;
}

// Convert four bits to bytes of 0 or 1, and four bytes, zero or not, to bits.
WEFT_DEVICE uint32_t BytesOfBits(uint32_t bits) {
  return (bits & 1u) | (bits & 2u) << 7 | (bits & 4u) << 14 | (bits & 8u) << 21;
}
WEFT_DEVICE uint32_t BitsOfBytes(uint32_t bytes) {
  return ((bytes & 0xffu) != 0 ? 1u : 0u) | ((bytes & 0xff00u) != 0 ? 2u : 0u) | ((bytes & 0xff0000u) != 0 ? 4u : 0u) |
         ((bytes & 0xff000000u) != 0 ? 8u : 0u);
}

template <typename C, Type S>
struct Drop {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kMinBlocks = 4;
  Dropout a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    const int64_t elements = a.rows * a.columns;
    if (first >= elements) return;
    const int64_t count = Least<int64_t>(kBlock, elements - first);
    // The elements arrive while their random words are made.
    Words words = {};
    const bool whole = S != Type::kNone && S != Type::kFp32 && count == kBlock;
    if (whole) words = LoadWords(static_cast<const uint16_t*>(a.x.data) + first);
    const uint32_t bits = KeptBits(a, first, count);
    const C factor = static_cast<C>(a.key.factor);
    C x[kBlock];
    if (whole) {
      Eight<C, S == Type::kFp16 ? Type::kFp16 : Type::kBf16>{{words}}.Get(x);
    } else {
      LoadSome<C, S>(a.x, first, count, true, x);
    }
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = (bits >> i & 1u) != 0 ? x[i] * factor : C(0);
    StoreSome<C, S>(a.y, first, count, true, x);
    if (a.mask == nullptr) return;
    if (count == kBlock) {
      StoreWord(a.mask + first, BytesOfBits(bits));
      StoreWord(a.mask + first + 4, BytesOfBits(bits >> 4));
    } else {
      for (int i = 0; i < count; ++i) a.mask[first + i] = static_cast<uint8_t>(bits >> i & 1u);
    }
  }
};

template <typename C, Type S>
struct ByMask {
  static constexpr int kMaxThreads = kThreads;
  DropoutByMask a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    if (first >= a.elements) return;
    const int64_t count = Least<int64_t>(kBlock, a.elements - first);
    // Load the mask first: the thread then waits for it together with the elements.
    uint32_t low = 0, high = 0, bits = 0;
    if (count == kBlock) {
      low = LoadWord(a.mask + first);
      high = LoadWord(a.mask + first + 4);
    } else {
      for (int i = 0; i < count; ++i) bits |= (a.mask[first + i] != 0 ? 1u : 0u) << i;
    }
    const C factor = static_cast<C>(a.factor);
    C x[kBlock];
    LoadSome<C, S>(a.x, first, count, true, x);
    bits |= BitsOfBytes(low) | BitsOfBytes(high) << 4;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = (bits >> i & 1u) != 0 ? x[i] * factor : C(0);
    StoreSome<C, S>(a.y, first, count, true, x);
  }
};

}  // namespace

Outcome Launch(const Dropout& dropout, void* stream) {
  const int64_t blocks = CeilDivide(CeilDivide(dropout.rows * dropout.columns, kBlock), kThreads);
  return WithEights(dropout.in_double, true, {dropout.x, dropout.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Drop<C, S>{dropout}, blocks, kThreads, 0, stream);
  });
}

Outcome Launch(const DropoutByMask& dropout, void* stream) {
  const int64_t blocks = CeilDivide(CeilDivide(dropout.elements, kBlock), kThreads);
  return WithEights(dropout.in_double, true, {dropout.x, dropout.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(ByMask<C, S>{dropout}, blocks, kThreads, 0, stream);
  });
}

}  // namespace weft::exec::cuda
