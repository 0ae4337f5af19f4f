// Which rows of two images a convolution brings together.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_PLACES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_PLACES_H_

#include <stdint.h>

#include "executor/device_code.h"

namespace weft::cuda {

// From images of height x width positions to images of fewer, by a kernel of side x side places (odd).
struct ConvPlaces {
  int64_t height = 0, width = 0, side = 1, stride = 1;

  WEFT_HOST_DEVICE int64_t places() const { return side * side; }
  WEFT_HOST_DEVICE int64_t out_height() const { return (height - 1) / stride + 1; }
  WEFT_HOST_DEVICE int64_t out_width() const { return (width - 1) / stride + 1; }

  // Row of the input that a place of the kernel meets for a row of the output; -1 outside of the image.
  WEFT_HOST_DEVICE int64_t InputRow(int64_t row, int64_t place) const {
    const int64_t line = row / out_width(), sample = line / out_height();
    const int64_t y = (line - sample * out_height()) * stride + place / side - side / 2;
    const int64_t x = (row - line * out_width()) * stride + place % side - side / 2;
    if (y < 0 || y >= height || x < 0 || x >= width) return -1;
    return (sample * height + y) * width + x;
  }

  // The other way: row of the output whose place meets a row of the input; -1 if there is none.
  WEFT_HOST_DEVICE int64_t OutputRow(int64_t row, int64_t place) const {
    const int64_t line = row / width, sample = line / height;
    const int64_t y = line - sample * height + side / 2 - place / side;
    const int64_t x = row - line * width + side / 2 - place % side;
    if (y < 0 || x < 0 || y % stride != 0 || x % stride != 0) return -1;
    if (y / stride >= out_height() || x / stride >= out_width()) return -1;
    return (sample * out_height() + y / stride) * out_width() + x / stride;
  }
};

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CONV_PLACES_H_
