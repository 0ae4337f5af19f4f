#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/swap_axes.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;

// Each thread writes one element of y, so neighboring threads write neighboring elements. Reads stay in the cache,
// because weights are small.
template <typename C, Type S>
struct Swap {
  static constexpr int kMaxThreads = kThreads;
  SwapAxes a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.outer * a.rows * a.columns) return;
    const int64_t line = Divide(item, a.rows), i = item - line * a.rows;
    const int64_t o = Divide(line, a.columns), j = line - o * a.columns;
    Store<C, S>(a.y, item, Load<C, S>(a.x, (o * a.rows + i) * a.columns + j));
  }
};

}  // namespace

Outcome Launch(const SwapAxes& swap, void* stream) {
  return WithTypes(swap.x.type == Type::kFp64, {swap.x, swap.y}, [&]<typename C, Type S>() {
    return LaunchKernel(Swap<C, S>{swap}, CeilDivide(swap.outer * swap.rows * swap.columns, kThreads), kThreads, 0,
                        stream);
  });
}

}  // namespace weft::exec::cuda
