// A block handles 512 neighboring accumulators, a thread two of them.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/exact.h"
#include "executor/backends/cuda/kernels/exact_tile.h"
#include "executor/backends/cuda/kernels/tile_walk.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = ExactTile::kThreads, kEach = ExactTile::kEach, kElements = ExactTile::kElements;

static_assert(kElements == kExactTile);

// The tile of one tensor that begins at `first`.
struct Place {
  int64_t first, elements;
  Exact192* accumulators;
  bool aligned;

  WEFT_DEVICE ExactTile Tile() const { return {Least<int64_t>(kElements, elements - first), aligned, {}}; }
  WEFT_DEVICE Exact192* Accumulators() const { return accumulators + first; }
};

template <typename Thread>
WEFT_DEVICE void Accumulate(Thread& thread, const Place& place, const Array& terms, bool fresh) {
  ExactTile tile = place.Tile();
  if (!fresh) tile.Ask(thread, place.Accumulators());
  double x[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t i = thread.index() + k * kThreads;
    x[k] = i < tile.count ? Load<double>(terms, place.first + i) : 0.0;
  }
  const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
  if (!fresh) tile.Put(thread, place.Accumulators(), limbs);
  thread.Sync();
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int i = thread.index() + k * kThreads;
    if (i >= tile.count) continue;
    Exact192 sum = {{0, 0, 0}};
    if (!fresh) sum = ExactAt(limbs, i);
    exact192::AddNumber(sum, x[k]);
    SetExact(limbs, i, sum);
  }
  thread.Sync();
  tile.Store(thread, limbs, place.Accumulators());
}

template <typename Thread>
WEFT_DEVICE void Round(Thread& thread, const Place& place, const Array& y) {
  ExactTile tile = place.Tile();
  tile.Ask(thread, place.Accumulators());
  const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
  tile.Put(thread, place.Accumulators(), limbs);
  thread.Sync();
  // FP16 subnormals have fewer bits than other numbers. A number for FP16 is first rounded to odd, so that storing it
  // gives the same result as a single rounding.
  const bool to_odd = y.type == Type::kFp16;
  const int precision = y.type == Type::kFp32 ? 24 : y.type == Type::kBf16 ? 8 : 53;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int i = thread.index() + k * kThreads;
    if (i < tile.count) {
      cuda::Store(y, place.first + i, exact192::Rounded(ExactAt(limbs, i), precision, to_odd));
    }
  }
}

template <typename Thread>
WEFT_DEVICE void SetAll(Thread& thread, const Place& place, const Exact192& value) {
  const ExactTile tile = place.Tile();
  const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
#pragma unroll
  for (int k = 0; k < kEach; ++k) SetExact(limbs, thread.index() + k * kThreads, value);
  thread.Sync();
  tile.Store(thread, limbs, place.Accumulators());
}

template <ExactOp kOp>
struct OneTensor {
  static constexpr int kMaxThreads = kThreads;
  ExactTensor tensor;
  bool fresh;
  Exact192 value;
  bool aligned;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Place place = {thread.block() * kElements, tensor.elements, tensor.accumulators, aligned};
    if constexpr (kOp == ExactOp::kAccumulate) Accumulate(thread, place, tensor.x, fresh);
    if constexpr (kOp == ExactOp::kRound) Round(thread, place, tensor.x);
    if constexpr (kOp == ExactOp::kConstant) SetAll(thread, place, value);
  }
};

// Handles all tensors of a table, with one block for every tile of every tensor.
template <ExactOp kOp>
struct ManyTensors {
  static constexpr int kMaxThreads = kThreads;
  TensorTable<ExactTensor> table;
  Exact192 value;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t t = TensorOfTile(table, thread.block()), begin = t > 0 ? table.ends[t - 1] : 0;
    const ExactTensor tensor = table.tensors[t];
    const bool aligned = reinterpret_cast<uintptr_t>(tensor.accumulators) % 16 == 0;
    const Place place = {(thread.block() - begin) * kElements, tensor.elements, tensor.accumulators, aligned};
    if constexpr (kOp == ExactOp::kAccumulate) Accumulate(thread, place, tensor.x, false);
    if constexpr (kOp == ExactOp::kRound) Round(thread, place, tensor.x);
    if constexpr (kOp == ExactOp::kConstant) SetAll(thread, place, value);
  }
};

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

template <ExactOp kOp>
Outcome LaunchOne(const ExactTensor& tensor, bool fresh, const Exact192& value, void* stream) {
  return LaunchKernel(OneTensor<kOp>{tensor, fresh, value, Aligned(tensor.accumulators)}, ExactTilesOf(tensor.elements),
                      kThreads, ExactTile::kBytes, stream);
}

template <ExactOp kOp>
Outcome LaunchMany(const ExactTensors& args, void* stream) {
  return LaunchKernel(ManyTensors<kOp>{args.table, args.value}, args.table.tiles, kThreads, ExactTile::kBytes, stream);
}

}  // namespace

Outcome Launch(const ExactTerms& args, void* stream) {
  return LaunchOne<ExactOp::kAccumulate>({args.elements, args.accumulators, args.x}, args.fresh, {}, stream);
}

Outcome Launch(const ExactResult& args, void* stream) {
  return LaunchOne<ExactOp::kRound>({args.elements, const_cast<Exact192*>(args.accumulators), args.y}, false, {},
                                    stream);
}

Outcome Launch(const ExactConstant& args, void* stream) {
  return LaunchOne<ExactOp::kConstant>({args.elements, args.accumulators, {}}, false, args.value, stream);
}

Outcome Launch(const ExactTensors& args, void* stream) {
  switch (args.op) {
    case ExactOp::kAccumulate:
      return LaunchMany<ExactOp::kAccumulate>(args, stream);
    case ExactOp::kRound:
      return LaunchMany<ExactOp::kRound>(args, stream);
    case ExactOp::kConstant:
      return LaunchMany<ExactOp::kConstant>(args, stream);
  }
  return "no such operation on a list of exact accumulators";
}

}  // namespace weft::exec::cuda
