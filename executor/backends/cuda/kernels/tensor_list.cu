#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/fours.h"
#include "executor/backends/cuda/kernels/tensor_list.h"
#include "executor/backends/cuda/kernels/tile_walk.h"

namespace weft::exec::cuda {
namespace {

// Copies elements of type `Bits`, eight at a time.
template <typename Bits>
struct CopyKernel {
  static constexpr int kMaxThreads = kTileThreads;
  TensorTable<ListedTensor> table;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto place = thread.template Shared<ListedTensor>(0, 1);
    ForTiles(thread, table, ListedTensor(), place, [&](const ListedTensor& tensor, int64_t begin, int64_t left) {
      const Bits* const from = static_cast<const Bits*>(tensor.from.data) + begin;
      Bits* const to = static_cast<Bits*>(tensor.to.data) + begin;
      // Neighboring threads copy neighboring 16 bytes.
      constexpr int kOfWords = 16 / static_cast<int>(sizeof(Bits)), kCopies = kBlock / kOfWords;
      if (left >= kTileElements) {
        Words words[kCopies];
#pragma unroll
        for (int i = 0; i < kCopies; ++i) words[i] = LoadWords(from + (i * kTileThreads + thread.index()) * kOfWords);
#pragma unroll
        for (int i = 0; i < kCopies; ++i) StoreWords(to + (i * kTileThreads + thread.index()) * kOfWords, words[i]);
        return;
      }
#pragma unroll 1
      for (int64_t i = thread.index(); i < left; i += kTileThreads) to[i] = from[i];
    });
  }
};

// Gives the same bits as kCast, kScale and kFill of elementwise.cu.
template <ListOp kOp, typename C, Type S>
struct ListKernel {
  static constexpr int kMaxThreads = kTileThreads;
  TensorList args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto place = thread.template Shared<ListedTensor>(0, 1);
    const C factor = static_cast<C>(kOp == ListOp::kScale ? *args.scale : args.value);
    ForTiles(thread, args.table, ListedTensor(), place, [&](const ListedTensor& tensor, int64_t begin, int64_t count) {
      C x[kBlock];
      if constexpr (S == Type::kFp32) {
        if (count >= kTileElements) {
          const FourPlaces places = FoursOf(begin, thread.index(), kTileThreads);
          if constexpr (kOp != ListOp::kFill) {
            Fours<S> from;
            from.Ask(tensor.from, places);
            from.Get(x);
          }
          Apply(factor, x);
          return StoreFours<S>(tensor.to, places, x);
        }
      }
      EightOfTile(thread, begin, count, [&](int64_t first, int64_t left) {
        if constexpr (kOp != ListOp::kFill) LoadSome<C, S>(tensor.from, first, left, true, x);
        Apply(factor, x);
        StoreSome<C, S>(tensor.to, first, left, true, x);
      });
    });
  }

  WEFT_DEVICE static void Apply(C factor, C (&x)[kBlock]) {
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if constexpr (kOp == ListOp::kFill) x[i] = factor;
      if constexpr (kOp == ListOp::kScale) x[i] = x[i] * factor;
    }
  }
};

template <ListOp kOp>
Outcome LaunchList(const TensorList& args, void* stream) {
  const int64_t blocks = TileBlocks(args.table.tiles);
  const auto launch = [&]<typename C, Type S>() {
    return LaunchKernel(ListKernel<kOp, C, S>{args}, blocks, kTileThreads, sizeof(ListedTensor), stream);
  };
  if (args.in_double) return launch.template operator()<double, Type::kNone>();
  if (args.type == Type::kFp32) return launch.template operator()<float, Type::kFp32>();
  if (args.type == Type::kBf16) return launch.template operator()<float, Type::kBf16>();
  return launch.template operator()<float, Type::kNone>();
}

Outcome LaunchCopies(const TensorList& args, void* stream) {
  const auto launch = [&](const auto& kernel) {
    return LaunchKernel(kernel, TileBlocks(args.table.tiles), kTileThreads, sizeof(ListedTensor), stream);
  };
  if (args.type == Type::kFp64) return launch(CopyKernel<uint64_t>{args.table});
  if (args.type == Type::kFp32) return launch(CopyKernel<uint32_t>{args.table});
  if (args.type == Type::kBf16 || args.type == Type::kFp16) return launch(CopyKernel<uint16_t>{args.table});
  return "the tensors of a list of copies must all be FP64, FP32, BF16 or FP16, and of one type";
}

}  // namespace

Outcome Launch(const TensorList& args, void* stream) {
  switch (args.op) {
    case ListOp::kCopy:
      return LaunchCopies(args, stream);
    case ListOp::kCast:
      return LaunchList<ListOp::kCast>(args, stream);
    case ListOp::kScale:
      return LaunchList<ListOp::kScale>(args, stream);
    case ListOp::kFill:
      return LaunchList<ListOp::kFill>(args, stream);
  }
  return "no such operation on a list of tensors";
}

}  // namespace weft::exec::cuda
