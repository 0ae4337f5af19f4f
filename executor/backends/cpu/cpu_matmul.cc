// MATMUL and BIAS_GRADIENT.
#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {
namespace {

// Elements of packed B kept at a time: as floats they fill a second-level cache of 1 MiB. A is packed again for each
// block of columns, so a block has at least kPackedColumns columns even if k is large.
constexpr int64_t kPackedElements = int64_t{1} << 18;
constexpr int64_t kPackedColumns = 128;
// Largest number of columns of a task if k has several blocks. The task's unfinished sums are then at most 288 KiB of
// floats (96 rows).
constexpr int64_t kPartialColumns = 768;
// Products with fewer multiplications run on the calling thread, because waking the others would cost more.
constexpr int64_t kSmallProduct = int64_t{1} << 17;

template <typename T>
void Multiply(const Call& call, int64_t m, int64_t n, int64_t k) {
  const Loops<T>& loops = GetLoops<T>(call);
  const StepAttributes& attributes = call.attributes();
  const TensorView& c = call.out[0];
  const Matrix a = {call.in[0].data, StorageOf(call.in[0]), attributes.transpose_a() ? m : k, attributes.transpose_a(),
                    attributes.tf32()};
  const Matrix b = {call.in[1].data, StorageOf(call.in[1]), attributes.transpose_b() ? k : n, attributes.transpose_b(),
                    attributes.tf32()};
  const bool parallel = m * n * std::max<int64_t>(k, 1) > kSmallProduct;
  const auto run = [&](int64_t tasks, ThreadPool::Task task) {
    if (parallel) return call.pool().Run(tasks, task);
    for (int64_t i = 0; i < tasks; ++i) task(i, 0);
  };

  const int64_t width = loops.panel_width;
  const int64_t fit = std::max(kPackedElements / std::max<int64_t>(k, 1), kPackedColumns);
  const int64_t block = std::min((fit + width - 1) / width, (n + width - 1) / width) * width;
  // Shared memory: the panels of a block of columns, then the bias as T.
  const bool has_bias = call.in.size() == 3;
  const int64_t panel_elements = PanelElements(k, block);
  T* const panels = call.workspace.shared.Get<T>(panel_elements + n);
  const T* const bias = has_bias ? Read(call, call.in[2], 0, n, panels + panel_elements) : nullptr;

  // Make enough tasks for all threads, each with as many rows as possible. The split does not change the result.
  const int64_t wanted = 3 * call.pool().threads();
  const int64_t rows = std::clamp<int64_t>((m + wanted - 1) / wanted / 12 * 12, 24, kRowBlock);
  const int64_t row_tasks = (m + rows - 1) / rows;
  for (int64_t first = 0; first < n; first += block) {
    const int64_t columns = std::min(block, n - first);
    const int64_t panel_count = (columns + width - 1) / width;
    const int64_t pack_group = std::max<int64_t>(1, panel_count / (4 * call.pool().threads()));
    run((panel_count + pack_group - 1) / pack_group, [&](int64_t task, int) {
      const int64_t column = task * pack_group * width;
      loops.pack(b, k, first + column, std::min(pack_group * width, columns - column), panels + column * k);
    });
    // If k has several blocks, a task must have so few columns that its unfinished sums stay in the second-level cache.
    const int64_t fitting = k > kDepthBlock ? (columns + kPartialColumns - 1) / kPartialColumns : 1;
    const int64_t groups = std::min(std::max((wanted + row_tasks - 1) / row_tasks, fitting), panel_count);
    const int64_t group_width = (panel_count + groups - 1) / groups * width;
    const int64_t scratch = MultiplyScratch(k, std::min(group_width, block));
    run(row_tasks * groups, [&](int64_t task, int thread) {
      const int64_t row = task / groups * rows;
      const int64_t column = task % groups * group_width;
      if (column >= columns) return;
      Product<T> product;
      product.a = a;
      product.first_row = row;
      product.rows = std::min(rows, m - row);
      product.k = k;
      product.panels = panels + column * k;
      product.panel_stride = width * k;
      product.columns = std::min(group_width, columns - column);
      product.bias = bias ? bias + first + column : nullptr;
      product.accumulate = call.step.accumulate();
      product.c = At(c, row * n + first + column);
      product.c_storage = StorageOf(c);
      product.c_stride = n;
      loops.multiply(product, call.workspace.thread[thread].Get<T>(scratch));
    });
  }
}

}  // namespace

absl::Status MatMul(const Call& call) {
  const TensorView& a = call.in[0];
  const StepAttributes& attributes = call.attributes();
  const int64_t k = attributes.transpose_a() ? Rows(a) : Columns(a);
  const int64_t m = attributes.transpose_a() ? Columns(a) : Rows(a);
  const int64_t n = Columns(call.out[0]);
  if (m == 0 || n == 0) return absl::OkStatus();
  WithComputeType(call.in, [&]<typename T>() { Multiply<T>(call, m, n, k); });
  return absl::OkStatus();
}

absl::Status BiasGradient(const Call& call) {
  const TensorView& dy = call.in[0];
  const int64_t n = Columns(dy), rows = Rows(dy);
  constexpr int64_t kColumns = 128;
  WithComputeType(call.in, [&]<typename T>() {
    call.pool().Run((n + kColumns - 1) / kColumns, [&](int64_t task, int) {
      const int64_t first = task * kColumns, count = std::min(kColumns, n - first);
      T sums[kColumns] = {};
      T buffer[kColumns];
      for (int64_t row = 0; row < rows; ++row) {
        GetLoops<T>(call).accumulate(Read(call, dy, row * n + first, count, buffer), count, sums);
      }
      T* result = Target(call.out[0], first, call.step.accumulate(), sums);
      if (result != sums) std::copy(sums, sums + count, result);
      Write(call, call.out[0], first, count, call.step.accumulate(), result);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
