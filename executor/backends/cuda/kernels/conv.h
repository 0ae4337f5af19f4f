// CONV2D and its derivatives, for convolutions that cuDNN does not support.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_H_

#include <stdint.h>

#include "executor/backends/cuda/kernels/types.h"
#include "executor/numerics/device_code.h"

namespace weft::exec::cuda {

// A convolution from images of height x width positions to images of the same size or smaller. Its kernel has side x
// side positions, called places; `side` is odd.
struct ConvPlaces {
  int64_t height = 0, width = 0, side = 1, stride = 1;

  WEFT_HOST_DEVICE int64_t places() const { return side * side; }
  WEFT_HOST_DEVICE int64_t out_height() const { return Quotient(height - 1, stride) + 1; }
  WEFT_HOST_DEVICE int64_t out_width() const { return Quotient(width - 1, stride) + 1; }

  // `row` is a row of the output. Returns the row of the input that the kernel's weights at `place` multiply to compute
  // it, or -1 if that position is outside the image.
  WEFT_HOST_DEVICE int64_t InputRow(int64_t row, int64_t place) const {
    const int64_t line = Quotient(row, out_width()), sample = Quotient(line, out_height());
    const int64_t down = Quotient(place, side), right = place - down * side;
    const int64_t y = (line - sample * out_height()) * stride + down - side / 2;
    const int64_t x = (row - line * out_width()) * stride + right - side / 2;
    if (y < 0 || y >= height || x < 0 || x >= width) return -1;
    return (sample * height + y) * width + x;
  }

  // The inverse of InputRow: returns the row of the output for which InputRow(that row, place) is `row`, or -1 if there
  // is none.
  WEFT_HOST_DEVICE int64_t OutputRow(int64_t row, int64_t place) const {
    const int64_t line = Quotient(row, width), sample = Quotient(line, height);
    const int64_t down = Quotient(place, side), right = place - down * side;
    const int64_t y = line - sample * height + side / 2 - down, x = row - line * width + side / 2 - right;
    if (y < 0 || x < 0) return -1;
    const int64_t out_y = Quotient(y, stride), out_x = Quotient(x, stride);
    if (out_y * stride != y || out_x * stride != x || out_y >= out_height() || out_x >= out_width()) return -1;
    return (sample * out_height() + out_y) * out_width() + out_x;
  }

 private:
  // Quotient of two numbers that are not negative. 64-bit division is slow on a GPU and mostly not needed.
  WEFT_HOST_DEVICE static int64_t Quotient(int64_t a, int64_t b) {
    if (((static_cast<uint64_t>(a) | static_cast<uint64_t>(b)) >> 32) == 0) {
      return static_cast<int64_t>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b));
    }
    return a / b;
  }
};

struct ConvShape {
  ConvPlaces places;
  // Channels of input and output, and rows of the output.
  int64_t inputs = 0, outputs = 0, out_rows = 0;
  bool in_double = false, accumulate = false;

  int64_t samples() const { return out_rows / (places.out_height() * places.out_width()); }
  int64_t in_rows() const { return samples() * places.height * places.width; }
};

// The weight has shape [outputs, inputs, places]. The bias is optional.
struct ConvForward {
  ConvShape shape;
  Array x, weight, bias;
  Array y;
};
Outcome Launch(const ConvForward& args, void* stream);

struct ConvInput {
  ConvShape shape;
  Array dy, weight;
  Array dx;
};
Outcome Launch(const ConvInput& args, void* stream);

struct ConvWeight {
  ConvShape shape;
  Array dy, x;
  Array dweight;
};
Outcome Launch(const ConvWeight& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_H_
