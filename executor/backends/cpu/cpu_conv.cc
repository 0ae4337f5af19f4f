// CONV2D and its derivatives: matrix products whose left factor is gathered from the image a block of rows at a time.
//
// A gathered row belongs to one row of the result. It holds the positions of the convolution kernel one after the other
// (row by row), with all channels of each position. Positions outside the image are zeros. An element of the result is
// therefore one chain of fused multiply-adds over ascending (position, channel), like an element of MATMUL over
// ascending k. Besides the tensors, CONV2D and CONV2D_BACKWARD need memory for one block of gathered rows per thread
// and one block of packed columns. CONV2D_BACKWARD_WEIGHT needs one block of packed columns and of sums per thread.
#include <algorithm>

#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {
namespace {

// Limits of a block of packed columns, as in cpu_matmul.cc: it has about kPackedElements elements, but at least
// kPackedColumns columns even if k is large.
constexpr int64_t kPackedElements = int64_t{1} << 18;
constexpr int64_t kPackedColumns = 128;
// Rows of y per piece of the weight gradient. Each piece is one chain of multiply-adds; the pieces are added in
// ascending order.
constexpr int64_t kRowPiece = 512;

struct Geometry {
  int64_t height, width, side, stride;
  int64_t inputs, outputs;

  int64_t pad() const { return side / 2; }
  int64_t places() const { return side * side; }
  int64_t out_height() const { return (height - 1) / stride + 1; }
  int64_t out_width() const { return (width - 1) / stride + 1; }
  int64_t in_positions() const { return height * width; }
  int64_t out_positions() const { return out_height() * out_width(); }
};

Geometry GeometryOf(const Call& call, const TensorView& x, const TensorView& y) {
  const StepAttributes& a = call.attributes();
  return {a.height(), a.width(), a.kernel_size(), a.stride(), Columns(x), Columns(y)};
}

template <typename T>
constexpr Storage kStoredAs = sizeof(T) == 8 ? Storage::kFp64 : Storage::kFp32;

// Copies elements [first, first + count) of row `row` of the image, or writes zeros if `row` is negative.
template <typename T>
void CopyRow(const Call& call, const TensorView& image, int64_t row, int64_t first, int64_t count, T* to) {
  if (row < 0) {
    std::fill(to, to + count, T(0));
    return;
  }
  GetLoops<T>(call).load(At(image, row * Columns(image) + first), StorageOf(image), count, to);
}

// Returns the row of x that position `place` = ky * side + kx of the convolution kernel multiplies for row `row` of y;
// -1 outside the image.
int64_t InputRow(const Geometry& g, int64_t row, int64_t place) {
  const int64_t sample = row / g.out_positions(), position = row % g.out_positions();
  const int64_t iy = position / g.out_width() * g.stride + place / g.side - g.pad();
  const int64_t ix = position % g.out_width() * g.stride + place % g.side - g.pad();
  if (iy < 0 || iy >= g.height || ix < 0 || ix >= g.width) return -1;
  return (sample * g.height + iy) * g.width + ix;
}

// The inverse of InputRow: returns the row of y for which position `place` of the convolution kernel multiplies row
// `row` of x; -1 if there is none.
int64_t OutputRow(const Geometry& g, int64_t row, int64_t place) {
  const int64_t sample = row / g.in_positions(), position = row % g.in_positions();
  const int64_t oy = position / g.width + g.pad() - place / g.side;
  const int64_t ox = position % g.width + g.pad() - place % g.side;
  if (oy < 0 || ox < 0 || oy % g.stride != 0 || ox % g.stride != 0) return -1;
  if (oy / g.stride >= g.out_height() || ox / g.stride >= g.out_width()) return -1;
  return (sample * g.out_height() + oy / g.stride) * g.out_width() + ox / g.stride;
}

// c [m, n] = (c +) (gathered rows of `source`) * (packed columns) + bias. `row_of` maps (row of c, position of the
// convolution kernel) to a row of `source`. `pack` writes one panel of the right factor, k x panel_width, beginning at
// the given column.
template <typename T, typename RowOf, typename Pack>
void GatheredProduct(const Call& call, const Geometry& g, const TensorView& source, const TensorView& c,
                     const TensorView* bias, RowOf row_of, Pack pack) {
  const Loops<T>& loops = GetLoops<T>(call);
  const int64_t channels = Columns(source), m = Rows(c), n = Columns(c), k = g.places() * channels;
  const bool direct = g.side == 1 && g.stride == 1;
  const int64_t width = loops.panel_width;
  const int64_t fit = std::max(kPackedElements / k, kPackedColumns);
  const int64_t block = std::min((fit + width - 1) / width, (n + width - 1) / width) * width;
  T* const panels = call.workspace.shared.Get<T>(PanelElements(k, block) + n);
  const T* const added = bias ? Read(call, *bias, 0, n, panels + PanelElements(k, block)) : nullptr;
  const int64_t row_tasks = (m + kRowBlock - 1) / kRowBlock;
  for (int64_t first = 0; first < n; first += block) {
    const int64_t columns = std::min(block, n - first);
    call.pool().Run((columns + width - 1) / width, [&](int64_t panel, int thread) {
      pack(first + panel * width, std::min(width, columns - panel * width), panels + panel * width * k, thread);
    });
    call.pool().Run(row_tasks, [&](int64_t task, int thread) {
      const int64_t row = task * kRowBlock, rows = std::min(kRowBlock, m - row);
      const int64_t gathered = direct ? 0 : kRowBlock * k;
      T* const memory = call.workspace.thread[thread].Get<T>(gathered + MultiplyScratch(k, columns));
      Product<T> product;
      if (direct) {
        product.a = {source.data, StorageOf(source), channels, false};
        product.first_row = row;
      } else {
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t place = 0; place < g.places(); ++place) {
            CopyRow(call, source, row_of(row + i, place), 0, channels, memory + i * k + place * channels);
          }
        }
        product.a = {memory, kStoredAs<T>, k, false};
      }
      product.rows = rows;
      product.k = k;
      product.panels = panels;
      product.panel_stride = width * k;
      product.columns = columns;
      product.bias = added ? added + first : nullptr;
      product.accumulate = call.step.accumulate();
      product.c = At(c, row * n + first);
      product.c_storage = StorageOf(c);
      product.c_stride = n;
      loops.multiply(product, memory + gathered);
    });
  }
}

template <typename T>
void Forward(const Call& call, const Geometry& g) {
  const TensorView &x = call.in[0], &weight = call.in[1];
  const int64_t width = GetLoops<T>(call).panel_width, per_output = g.inputs * g.places();
  GatheredProduct<T>(
      call, g, x, call.out[0], call.in.size() == 3 ? &call.in[2] : nullptr,
      [&](int64_t row, int64_t place) { return InputRow(g, row, place); },
      [&](int64_t first, int64_t columns, T* panel, int thread) {
        T* buffer = call.workspace.thread[thread].Get<T>(per_output);
        std::fill(panel, panel + width * per_output, T(0));
        for (int64_t j = 0; j < columns; ++j) {
          const T* filter = Read(call, weight, (first + j) * per_output, per_output, buffer);
          for (int64_t c = 0; c < g.inputs; ++c) {
            for (int64_t p = 0; p < g.places(); ++p) panel[(p * g.inputs + c) * width + j] = filter[c * g.places() + p];
          }
        }
      });
}

template <typename T>
void BackwardInput(const Call& call, const Geometry& g) {
  const TensorView &dy = call.in[0], &weight = call.in[1];
  const int64_t width = GetLoops<T>(call).panel_width;
  GatheredProduct<T>(
      call, g, dy, call.out[0], nullptr, [&](int64_t row, int64_t place) { return OutputRow(g, row, place); },
      [&](int64_t first, int64_t columns, T* panel, int thread) {
        T* buffer = call.workspace.thread[thread].Get<T>(columns * g.places());
        std::fill(panel, panel + width * g.outputs * g.places(), T(0));
        for (int64_t o = 0; o < g.outputs; ++o) {
          const T* filters = Read(call, weight, (o * g.inputs + first) * g.places(), columns * g.places(), buffer);
          for (int64_t j = 0; j < columns; ++j) {
            for (int64_t p = 0; p < g.places(); ++p) {
              panel[(p * g.outputs + o) * width + j] = filters[j * g.places() + p];
            }
          }
        }
      });
}

// Packs columns [first, first + columns) of the gathered matrix into panels, for rows [row, row + rows) of y.
template <typename T>
void PackGathered(const Call& call, const Geometry& g, const TensorView& x, int64_t row, int64_t rows, int64_t first,
                  int64_t columns, T* panels) {
  const int64_t width = GetLoops<T>(call).panel_width;
  for (int64_t column = 0; column < columns; column += width) {
    T* panel = panels + column * rows;
    const int64_t count = std::min(width, columns - column);
    for (int64_t i = 0; i < rows; ++i, panel += width) {
      // Each iteration copies consecutive channels of one position.
      for (int64_t j = 0; j < count;) {
        const int64_t place = (first + column + j) / g.inputs, channel = (first + column + j) % g.inputs;
        const int64_t run = std::min(count - j, g.inputs - channel);
        CopyRow(call, x, InputRow(g, row + i, place), channel, run, panel + j);
        j += run;
      }
      std::fill(panel + count, panel + width, T(0));
    }
  }
}

template <typename T>
void BackwardWeight(const Call& call, const Geometry& g) {
  const TensorView &dy = call.in[0], &x = call.in[1], &dweight = call.out[0];
  const Loops<T>& loops = GetLoops<T>(call);
  const int64_t rows = Rows(dy), all_columns = g.places() * g.inputs;
  const int64_t column_tasks = (all_columns + kPackedColumns - 1) / kPackedColumns;
  const int64_t output_tasks = (g.outputs + kRowBlock - 1) / kRowBlock;
  const int64_t panels = PanelElements(kRowPiece, kPackedColumns), sums = kRowBlock * kPackedColumns;
  call.pool().Run(column_tasks * output_tasks, [&](int64_t task, int thread) {
    const int64_t first = task % column_tasks * kPackedColumns;
    const int64_t columns = std::min(kPackedColumns, all_columns - first);
    T* const memory = call.workspace.thread[thread].Get<T>(panels + sums + MultiplyScratch(kRowPiece, kPackedColumns));
    Product<T> product;
    product.first_row = task / column_tasks * kRowBlock;
    product.rows = std::min(kRowBlock, g.outputs - product.first_row);
    product.panels = memory;
    product.columns = columns;
    product.c = memory + panels;
    product.c_storage = kStoredAs<T>;
    product.c_stride = columns;
    if (rows == 0) std::fill(memory + panels, memory + panels + product.rows * columns, T(0));
    for (int64_t row = 0; row < rows; row += kRowPiece) {
      product.k = std::min(kRowPiece, rows - row);
      product.panel_stride = product.k * loops.panel_width;
      product.a = {At(dy, row * g.outputs), StorageOf(dy), g.outputs, true};
      product.accumulate = row > 0;
      PackGathered(call, g, x, row, product.k, first, columns, memory);
      loops.multiply(product, memory + panels + sums);
    }
    const T* sum = memory + panels;
    for (int64_t o = product.first_row; o < product.first_row + product.rows; ++o) {
      for (int64_t column = first; column < first + columns; ++column, ++sum) {
        T value = *sum;
        const int64_t element = (o * g.inputs + column % g.inputs) * g.places() + column / g.inputs;
        T* to = Target(dweight, element, call.step.accumulate(), &value);
        *to = value;
        Write(call, dweight, element, 1, call.step.accumulate(), to);
      }
    }
  });
}

}  // namespace

absl::Status Conv2d(const Call& call) {
  const Geometry g = GeometryOf(call, call.in[0], call.out[0]);
  WithComputeType(call.in, [&]<typename T>() { Forward<T>(call, g); });
  return absl::OkStatus();
}

absl::Status Conv2dBackward(const Call& call) {
  const Geometry g = GeometryOf(call, call.out[0], call.in[0]);
  WithComputeType(call.in, [&]<typename T>() { BackwardInput<T>(call, g); });
  return absl::OkStatus();
}

absl::Status Conv2dBackwardWeight(const Call& call) {
  const Geometry g = GeometryOf(call, call.in[1], call.in[0]);
  WithComputeType(call.in, [&]<typename T>() { BackwardWeight<T>(call, g); });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
