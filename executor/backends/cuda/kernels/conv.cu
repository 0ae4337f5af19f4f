// Products whose left or right factor is gathered from the image. As on the CPU, terms are added by ascending position
// in the convolution kernel, and at each position by ascending channel.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/conv.h"
#include "executor/backends/cuda/kernels/tile_product.h"

namespace weft::exec::cuda {
namespace {

template <typename C>
WEFT_DEVICE void Put(const Array& array, int64_t element, bool accumulate, C value) {
  Store<C>(array, element, accumulate ? Load<C>(array, element) + value : value);
}

// Computes y as a product [rows of y, places * inputs] x [places * inputs, outputs].
template <typename C>
struct Forward {
  using Compute = C;
  static constexpr int64_t kRun = 0;
  static constexpr bool left_by_depth = true, right_by_depth = true;
  ProductShape shape;
  ConvForward args;

  WEFT_DEVICE C Left(int64_t, int64_t row, int64_t k) const {
    const int64_t place = Divide(k, args.shape.inputs), from = args.shape.places.InputRow(row, place);
    return from < 0 ? C(0) : Load<C>(args.x, from * args.shape.inputs + k - place * args.shape.inputs);
  }
  WEFT_DEVICE C Right(int64_t, int64_t k, int64_t output) const {
    const int64_t place = Divide(k, args.shape.inputs), input = k - place * args.shape.inputs;
    return Load<C>(args.weight, (output * args.shape.inputs + input) * args.shape.places.places() + place);
  }
  WEFT_DEVICE void Write(int64_t, int64_t row, int64_t output, C sum) const {
    if (args.bias.data != nullptr) sum += Load<C>(args.bias, output);
    Put(args.y, row * args.shape.outputs + output, args.shape.accumulate, sum);
  }
};

// Computes dx as a product [rows of x, places * outputs] x [places * outputs, inputs].
template <typename C>
struct Backward {
  using Compute = C;
  static constexpr int64_t kRun = 0;
  static constexpr bool left_by_depth = true, right_by_depth = false;
  ProductShape shape;
  ConvInput args;

  WEFT_DEVICE C Left(int64_t, int64_t row, int64_t k) const {
    const int64_t place = Divide(k, args.shape.outputs), from = args.shape.places.OutputRow(row, place);
    return from < 0 ? C(0) : Load<C>(args.dy, from * args.shape.outputs + k - place * args.shape.outputs);
  }
  WEFT_DEVICE C Right(int64_t, int64_t k, int64_t input) const {
    const int64_t place = Divide(k, args.shape.outputs), output = k - place * args.shape.outputs;
    return Load<C>(args.weight, (output * args.shape.inputs + input) * args.shape.places.places() + place);
  }
  WEFT_DEVICE void Write(int64_t, int64_t row, int64_t input, C sum) const {
    Put(args.dx, row * args.shape.inputs + input, args.shape.accumulate, sum);
  }
};

// Computes dweight as a product [outputs, rows of y] x [rows of y, places * inputs].
template <typename C>
struct BackwardWeight {
  using Compute = C;
  static constexpr int64_t kRun = 512;
  static constexpr bool left_by_depth = false, right_by_depth = false;
  ProductShape shape;
  ConvWeight args;

  WEFT_DEVICE C Left(int64_t, int64_t output, int64_t row) const {
    return Load<C>(args.dy, row * args.shape.outputs + output);
  }
  WEFT_DEVICE C Right(int64_t, int64_t row, int64_t column) const {
    const int64_t place = Divide(column, args.shape.inputs), from = args.shape.places.InputRow(row, place);
    return from < 0 ? C(0) : Load<C>(args.x, from * args.shape.inputs + column - place * args.shape.inputs);
  }
  WEFT_DEVICE void Write(int64_t, int64_t output, int64_t column, C sum) const {
    const int64_t place = Divide(column, args.shape.inputs), input = column - place * args.shape.inputs;
    Put(args.dweight, (output * args.shape.inputs + input) * args.shape.places.places() + place, args.shape.accumulate,
        sum);
  }
};

}  // namespace

Outcome Launch(const ConvForward& args, void* stream) {
  const ConvShape& s = args.shape;
  const ProductShape shape = {1, s.out_rows, s.outputs, s.places.places() * s.inputs};
  if (s.in_double) return LaunchTileProduct(Forward<double>{shape, args}, stream);
  return LaunchTileProduct(Forward<float>{shape, args}, stream);
}

Outcome Launch(const ConvInput& args, void* stream) {
  const ConvShape& s = args.shape;
  const ProductShape shape = {1, s.in_rows(), s.inputs, s.places.places() * s.outputs};
  if (s.in_double) return LaunchTileProduct(Backward<double>{shape, args}, stream);
  return LaunchTileProduct(Backward<float>{shape, args}, stream);
}

Outcome Launch(const ConvWeight& args, void* stream) {
  const ConvShape& s = args.shape;
  const ProductShape shape = {1, s.outputs, s.places.places() * s.inputs, s.out_rows};
  if (s.in_double) return LaunchTileProduct(BackwardWeight<double>{shape, args}, stream);
  return LaunchTileProduct(BackwardWeight<float>{shape, args}, stream);
}

}  // namespace weft::exec::cuda
